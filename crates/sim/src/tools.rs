//! What tools that are not there answer in a simulated run: made up from the seed. Which tools those are, the performer
//! knows.

use serde_json::{Value, json};

use crate::chance::{Chance, tie};

/// A plausible result, the same for the same seed, tool and arguments.
pub fn result(seed: u64, tool: &str, arguments: &Value) -> Value {
    let mut chance = Chance::named(tie(seed, tool), &arguments.to_string());
    let list: Vec<u64> = (0..chance.below(4)).map(|_| chance.below(5)).collect();
    json!({
        "ok": chance.percent(70),
        "n": chance.below(5),
        "list": list,
        "text": format!("simulated {tool} {:04x}", chance.below(0x1_0000)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_depend_on_seed_tool_and_arguments() {
        let base = result(1, "search", &json!({ "q": 1 }));
        assert_eq!(base, result(1, "search", &json!({ "q": 1 })));
        assert_ne!(base, result(2, "search", &json!({ "q": 1 })));
        assert_ne!(base, result(1, "other", &json!({ "q": 1 })));
        assert_ne!(base, result(1, "search", &json!({ "q": 2 })));
    }
}
