//! Tool names on the wire. Ours may hold `:` and `/`; providers take letters, digits, `_` and `-`, at most 64.
//!
//! The map is made per call from the names that the call mentions, so a reply can be read back exactly.

use std::collections::BTreeMap;

/// The shortest limit among the providers.
const WIRE_NAME_MAX: usize = 64;
/// Hexadecimal digits of the hash that tells apart names which would look the same.
const HASH_DIGITS: usize = 8;

#[derive(Debug, Default)]
pub struct Names {
    to_wire: BTreeMap<String, String>,
    from_wire: BTreeMap<String, String>,
}

impl Names {
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Names {
        let names: Vec<&str> = names.into_iter().collect();
        let mut made = Names::default();
        // Names that need no change keep it, whatever order the others come in.
        for name in names.iter().filter(|name| sanitised(name) == **name) {
            made.insert(name, (*name).to_owned());
        }
        for name in names {
            if !made.to_wire.contains_key(name) {
                let wire = made.free_name(name);
                made.insert(name, wire);
            }
        }
        made
    }

    /// What to send for our name.
    pub fn wire(&self, name: &str) -> String {
        self.to_wire.get(name).cloned().unwrap_or_else(|| sanitised(name))
    }

    /// Our name for what a model said; one it made up stays as it came.
    pub fn ours(&self, wire: &str) -> String {
        self.from_wire.get(wire).cloned().unwrap_or_else(|| wire.to_owned())
    }

    fn insert(&mut self, name: &str, wire: String) {
        self.from_wire.insert(wire.clone(), name.to_owned());
        self.to_wire.insert(name.to_owned(), wire);
    }

    fn free_name(&self, name: &str) -> String {
        let plain = sanitised(name);
        if self.from_wire.contains_key(&plain) { with_hash(&plain, name) } else { plain }
    }
}

fn sanitised(name: &str) -> String {
    let mut wire: String = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if !wire.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        wire.insert(0, '_');
    }
    if wire.len() > WIRE_NAME_MAX { with_hash(&wire, name) } else { wire }
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// `wire` holds only ASCII by now, so cutting at a byte is safe.
fn with_hash(wire: &str, name: &str) -> String {
    let hash = blake3::hash(name.as_bytes()).to_hex();
    let kept: String = wire.chars().take(WIRE_NAME_MAX - HASH_DIGITS - 1).collect();
    let digits: String = hash.chars().take(HASH_DIGITS).collect();
    format!("{kept}_{digits}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn check(names: &[&str]) -> Vec<String> {
        let map = Names::new(names.iter().copied());
        let wires: Vec<String> = names.iter().map(|name| map.wire(name)).collect();
        for (name, wire) in names.iter().zip(&wires) {
            assert!(wire.len() <= WIRE_NAME_MAX && wire.chars().all(is_allowed), "{wire}");
            assert_eq!(&map.ours(wire), name);
        }
        wires
    }

    #[test]
    fn every_name_goes_out_legal_and_comes_back_the_same() {
        assert_eq!(check(&["write_file", "mcp:shop/find"]), ["write_file", "mcp_shop_find"]);
        let colliding = check(&["mcp:shop/find", "mcp_shop_find", "mcp/shop:find"]);
        assert_eq!(colliding[1], "mcp_shop_find", "a legal name is never renamed");
        assert!(colliding[0] != colliding[1] && colliding[0] != colliding[2]);
        let long = "mcp:a-server-with-a-long-name/".repeat(4);
        check(&[&long, &format!("{long}2"), "9lives", "größe", ""]);
    }

    #[test]
    fn a_name_nobody_offered_stays_as_it_came() {
        assert_eq!(Names::new(["a"]).ours("no such/tool"), "no such/tool");
    }
}
