//! Chance from a seed: splitmix64, and a hash that ties a number to a name.

/// A sequence of numbers that depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    /// A sequence of its own for each name.
    pub fn named(seed: u64, name: &str) -> Chance {
        Chance(tie(seed, name))
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// From 0 to `end` - 1; 0 where `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// True in so many cases of a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len() as u64) as usize)
    }
}

/// A number for a name under a seed.
pub fn tie(seed: u64, name: &str) -> u64 {
    // FNV-1a, mixed with the seed at the end.
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
    mix(hash ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut chance = Chance::new(seed);
            [chance.number(), chance.number(), chance.number()]
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        // The reference values of splitmix64.
        assert_eq!(Chance::new(0).number(), 0xE220_A839_7B1D_CDAF);
        assert_ne!(tie(1, "a"), tie(1, "b"));
        assert_ne!(tie(1, "a"), tie(2, "a"));
    }
}
