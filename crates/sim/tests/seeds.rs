//! The laws hold for the first seeds. More: `cargo run -p relais-sim --bin relais-simulate -- --seeds 10000`.

const SEEDS: u64 = 200;

#[test]
fn the_first_seeds_keep_the_laws() {
    let broken: Vec<String> = (1..=SEEDS)
        .filter_map(|seed| relais_sim::laws::check(seed).err())
        .map(|breach| format!("seed {}: {}", breach.seed, breach.law.lines().next().unwrap_or_default()))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
