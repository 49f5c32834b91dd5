//! How what is sent to a trigger becomes runs: `debounce`, `batch` and `throttle`.

use relais_plan::{BatchOf, Pace, Problem, Throttle};

use super::keys;
use crate::fields::{Field, Fields};
use crate::reader::Reader;

/// What a batch, or the memory of a throttle, may hold: both are kept with the trigger.
const MOST: u32 = 1_000;
const BATCH: &str = "`batch: { size: 100, within: 1m }`";
const THROTTLE: &str = "`throttle: { max: 10, per: 1m }`";

impl Reader<'_> {
    pub(crate) fn pace(&mut self, fields: &Fields<'_>) -> Pace {
        let pace = Pace {
            debounce_ms: fields.get("debounce").and_then(|field| self.duration(field)),
            batch: fields.get("batch").and_then(|field| self.batch(field)),
            throttle: fields.get("throttle").and_then(|field| self.throttle(field)),
        };
        if let (Some(field), true) = (fields.get("batch"), fields.has("debounce")) {
            self.no_effect(field, "beside `debounce`", "one keeps all that comes, the other only the last");
        }
        pace
    }

    fn batch(&mut self, field: Field<'_>) -> Option<BatchOf> {
        let fields = self.map(field.node, "`batch`", keys::BATCH, BATCH)?;
        let (size, within_ms) = (self.at_most(&fields, "size", BATCH), self.span_of(&fields, "within", BATCH));
        Some(BatchOf { size: size?, within_ms: within_ms? })
    }

    fn throttle(&mut self, field: Field<'_>) -> Option<Throttle> {
        let fields = self.map(field.node, "`throttle`", keys::THROTTLE, THROTTLE)?;
        let (max, per_ms) = (self.at_most(&fields, "max", THROTTLE), self.span_of(&fields, "per", THROTTLE));
        Some(Throttle { max: max?, per_ms: per_ms? })
    }

    fn at_most(&mut self, fields: &Fields<'_>, key: &str, example: &str) -> Option<u32> {
        let Some(field) = fields.get(key) else { return self.needs(fields, key, example) };
        let number = self.whole(field, 1)?;
        if number > MOST {
            self.wrong(field, &format!("a number up to {MOST}"), example);
        }
        Some(number)
    }

    fn span_of(&mut self, fields: &Fields<'_>, key: &str, example: &str) -> Option<u64> {
        match fields.get(key) {
            Some(field) => self.duration(field),
            None => self.needs(fields, key, example),
        }
    }

    fn needs<T>(&mut self, fields: &Fields<'_>, key: &str, example: &str) -> Option<T> {
        let problem = Problem::error(fields.span, format!("`{key}` is missing"));
        self.problems.push(problem.help(format!("for example {example}")));
        None
    }
}
