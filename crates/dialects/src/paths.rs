//! Where in a JSON text something stands, for programs that made the text and know no lines.

use relais_plan::{Source, path};

use crate::yaml::{self, Node};

/// The tree of a text, if it is JSON that can be read.
pub struct Paths(Option<Node>);

impl Paths {
    pub fn of(source: &Source) -> Paths {
        let is_json = source.text.trim_start().starts_with('{');
        Paths(is_json.then(|| yaml::parse(source).ok()).flatten())
    }

    /// The path to what stands at an offset: `steps[0].agent`; none at the root.
    pub fn at(&self, offset: u32) -> Option<String> {
        let segments = self.0.as_ref()?.path_at(offset);
        (!segments.is_empty()).then(|| path::show(&segments))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source { name: String::new(), text: text.to_owned() }
    }

    #[test]
    fn a_place_in_json_has_a_path() {
        let text = r#"{ "a": { "b\"": [1, { "c": "x, [y" }, "z"] }, "d": 2 }"#;
        let paths = Paths::of(&source(text));
        let check = |part: &str, path: &str| {
            let found = paths.at(u32::try_from(text.find(part).unwrap()).unwrap());
            assert_eq!(found.unwrap_or_default(), path, "{part}");
        };
        check("1", "a['b\"'][0]");
        check("\"c", "a['b\"'][1].c");
        check("\"x", "a['b\"'][1].c");
        check("{ \"c", "a['b\"'][1]");
        check("\"z", "a['b\"'][2]");
        check("2", "d");
        check("{", "");
        assert_eq!(Paths::of(&source("a: 1")).at(3), None);
        assert_eq!(Paths::of(&source("{ \"open")).at(8), None);
    }
}
