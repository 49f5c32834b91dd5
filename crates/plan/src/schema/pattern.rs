//! A text that matches a regular expression, for the common and simple ones: ids, codes, dates, versions.
//!
//! Literals, classes, groups, alternatives and counts are understood; for anything else there is no answer. The caller
//! checks the text against the schema.

/// Repeats made for one count, whatever the pattern asks for.
const MAX_REPEATS: usize = 200;

/// Characters made in all; nested counts multiply.
const MAX_CHARS: usize = 2_000;

/// Groups inside groups.
const MAX_DEPTH: usize = 16;

/// A text for the pattern; `salt` picks among what a class allows.
pub fn text(pattern: &str, salt: u64) -> Option<String> {
    let mut maker = Maker { pattern: pattern.chars().collect(), at: 0, salt, out: String::new() };
    maker.alternatives(0)?;
    (maker.at == maker.pattern.len() && maker.out.len() <= MAX_CHARS).then_some(maker.out)
}

struct Maker {
    pattern: Vec<char>,
    at: usize,
    salt: u64,
    out: String,
}

impl Maker {
    fn peek(&self) -> Option<char> {
        self.pattern.get(self.at).copied()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// `a|b|c`: the first is made, the others are read over.
    fn alternatives(&mut self, depth: usize) -> Option<()> {
        self.sequence(depth)?;
        let length = self.out.len();
        while self.eat('|') {
            self.sequence(depth)?;
            self.out.truncate(length);
        }
        Some(())
    }

    fn sequence(&mut self, depth: usize) -> Option<()> {
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            self.at += 1;
            if matches!(c, '^' | '$') {
                continue;
            }
            let length = self.out.len();
            self.element(c, depth)?;
            let made = self.out.split_off(length);
            for repeat in 0..self.count()? {
                self.out.push_str(&varied(&made, repeat));
                if self.out.len() > MAX_CHARS {
                    return None;
                }
            }
        }
        Some(())
    }

    /// One literal, class or group.
    fn element(&mut self, c: char, depth: usize) -> Option<()> {
        match c {
            '(' => {
                if depth == MAX_DEPTH || (self.eat('?') && !self.eat(':')) {
                    return None;
                }
                self.alternatives(depth + 1)?;
                return self.eat(')').then_some(());
            }
            '[' => {
                let made = self.class()?;
                self.out.push(made);
            }
            '.' => self.out.push('x'),
            '\\' => {
                let escaped = self.peek()?;
                self.at += 1;
                let made = self.escaped(escaped)?;
                self.out.push(made);
            }
            '*' | '+' | '?' | '{' => return None,
            literal => self.out.push(literal),
        }
        Some(())
    }

    fn escaped(&mut self, c: char) -> Option<char> {
        match c {
            'd' => Some(self.picked('0', '9')),
            'w' => Some(self.picked('a', 'z')),
            's' => Some(' '),
            c if c.is_ascii_alphanumeric() => None,
            literal => Some(literal),
        }
    }

    /// `[A-Z0-9_]`: a character of its first part.
    fn class(&mut self) -> Option<char> {
        let first = self.peek().filter(|c| !matches!(c, '^' | ']'))?;
        self.at += 1;
        let made = if first == '\\' {
            let escaped = self.peek()?;
            self.at += 1;
            self.escaped(escaped)?
        } else if self.peek() == Some('-') && self.pattern.get(self.at + 1).is_some_and(|c| *c != ']') {
            let last = *self.pattern.get(self.at + 1)?;
            self.at += 2;
            self.picked(first, last)
        } else {
            first
        };
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                ']' => return Some(made),
                '\\' => self.at += 1,
                _ => {}
            }
        }
        None
    }

    fn picked(&mut self, first: char, last: char) -> char {
        self.salt = self.salt.rotate_right(7);
        let span = u64::from(u32::from(last).saturating_sub(u32::from(first))) + 1;
        u32::try_from(self.salt % span).ok().and_then(|step| char::from_u32(u32::from(first) + step)).unwrap_or(first)
    }

    /// How often the element before is wanted: the least that its count allows, at least once where it may.
    fn count(&mut self) -> Option<usize> {
        let count = match self.peek() {
            Some('*' | '+' | '?') => {
                self.at += 1;
                1
            }
            Some('{') => {
                let end = self.at + self.pattern.get(self.at..)?.iter().position(|c| *c == '}')?;
                let inside: String = self.pattern.get(self.at + 1..end)?.iter().collect();
                self.at = end + 1;
                inside.split(',').next()?.trim().parse().ok()?
            }
            _ => 1,
        };
        self.eat('?');
        (count <= MAX_REPEATS).then_some(count)
    }
}

/// Repeats of a digit go up, so that `\d{4}` is a number and not four times the same digit.
fn varied(made: &str, repeat: usize) -> String {
    match made.parse::<u8>() {
        Ok(digit) if made.len() == 1 => ((usize::from(digit) + repeat) % 10).to_string(),
        _ => made.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn texts_match_their_patterns() {
        for pattern in [
            r"^[A-Z]{3}-\d{4}$",
            r"^v\d+\.\d+\.\d+$",
            r"^(red|green|blue)$",
            r"^[a-z0-9_]+$",
            r"^#[0-9a-f]{6}$",
            r"^\+?[1-9]\d{1,14}$",
            r"^(?:ab){2,3}c?$",
            r"^[\w.]+@example\.com$",
            r"abc",
            r"^$",
        ] {
            let compiled = regex::Regex::new(pattern).unwrap();
            for salt in [0, 1, 99, u64::MAX] {
                let made = text(pattern, salt).unwrap_or_else(|| panic!("{pattern}"));
                assert!(compiled.is_match(&made), "{pattern}: {made}");
            }
        }
    }

    #[test]
    fn what_is_not_understood_has_no_answer() {
        let deep = "(".repeat(100);
        for pattern in
            ["(?=a)b", "[^a]", r"\bx", "[", "(", "a{", "a{x}", "*", "a{9999}", "(((x{200}){200}){200})", &deep]
        {
            assert_eq!(text(pattern, 1), None, "{pattern}");
        }
    }
}
