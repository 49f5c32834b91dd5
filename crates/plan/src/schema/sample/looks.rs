//! What made-up values look like, judged by what they are called or described as: a `price` is an amount, a `url` an
//! address, a `summary` a sentence that says that it is simulated.
//!
//! It knows names and numbers, not schemas; whoever asks makes the result fit.

/// What a value stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Look {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A sentence that says what it is and that it is simulated.
    Sentence,
    /// The same, as short as a headline.
    Headline,
    Email,
    Address,
    Url,
    Phone,
    Date,
    Time,
    Moment,
    /// `ORD-4821`: letters of its name and digits.
    Code,
    File,
    Version,
    /// Between these numbers.
    Range(f64, f64),
}

use Look::{Address, Code, Date, Email, File, Headline, Moment, OneOf, Phone, Range, Sentence, Time, Url, Version};

const PEOPLE: Look = OneOf(&[
    "Ann Lee",
    "Omar Haddad",
    "Ines Moreau",
    "Jonas Weber",
    "Priya Nair",
    "Tom Baker",
    "Lucia Rossi",
    "Kenji Mori",
    "Sara Lindgren",
    "Paul Novak",
]);
const COMPANIES: Look = OneOf(&[
    "Northwind Goods",
    "Harbour & Sons",
    "Blue Kettle",
    "Alpine Supply",
    "Corner Market",
    "Fabrik Nord",
    "Lantern Books",
    "Oak Street Traders",
]);
const PRODUCTS: Look = OneOf(&[
    "espresso machine",
    "hand grinder",
    "desk lamp",
    "travel kettle",
    "wool blanket",
    "notebook A5",
    "bicycle bell",
    "water bottle",
    "rain jacket",
]);
const CITIES: Look = OneOf(&["Lyon", "Hamburg", "Porto", "Leeds", "Turin", "Gdansk", "Ghent", "Malmo"]);
const COUNTRIES: Look = OneOf(&["France", "Germany", "Portugal", "Italy", "Poland", "Belgium", "Sweden", "Japan"]);
const TOPICS: Look = OneOf(&["coffee", "tides", "city trains", "relay races", "rooftop gardens", "old maps", "bees"]);
const QUERIES: Look = OneOf(&[
    "espresso machine price",
    "best hand grinder",
    "train times to Lyon",
    "desk lamp reviews",
    "return policy",
    "opening hours",
]);
const CATEGORIES: Look = OneOf(&["billing", "delivery", "returns", "technical", "account", "other"]);
const STATES: Look = OneOf(&["open", "in progress", "done", "on hold"]);
const LEVELS: Look = OneOf(&["high", "medium", "low"]);
const MOODS: Look = OneOf(&["positive", "neutral", "negative"]);
const CURRENCIES: Look = OneOf(&["EUR", "USD", "GBP", "CHF"]);
const LANGUAGES: Look = OneOf(&["English", "French", "German", "Spanish"]);
const COLOURS: Look = OneOf(&["green", "blue", "red", "grey"]);
const ROLES: Look = OneOf(&["analyst", "engineer", "editor", "accountant", "nurse"]);
const AMOUNT: Look = Range(4.0, 400.0);
const SHARE: Look = Range(0.0, 1.0);
const FEW: Look = Range(1.0, 20.0);

/// Words of names, and what they stand for as text.
const TEXTS: &[(&[&str], Look)] = &[
    (&["email", "recipient", "sender"], Email),
    (&["url", "uri", "link", "href", "website", "homepage", "page", "site"], Url),
    (&["phone", "telephone", "mobile", "fax"], Phone),
    (&["address", "street"], Address),
    (&["city", "town", "location", "place", "destination", "origin"], CITIES),
    (&["country", "nationality"], COUNTRIES),
    (&["date", "day", "deadline", "due", "birthday"], Date),
    (&["time", "hour"], Time),
    (&["timestamp", "at", "moment"], Moment),
    (
        &["person", "author", "customer", "client", "user", "owner", "assignee", "contact", "manager", "employee"],
        PEOPLE,
    ),
    (&["reviewer", "applicant", "candidate", "fullname", "firstname", "lastname", "signer"], PEOPLE),
    (&["company", "shop", "store", "vendor", "supplier", "competitor", "merchant", "brand", "seller"], COMPANIES),
    (&["organisation", "organization", "employer", "publisher", "team"], COMPANIES),
    (&["product", "item", "goods"], PRODUCTS),
    (&["topic", "theme"], TOPICS),
    (&["query", "search", "keyword", "term", "q"], QUERIES),
    (&["category", "type", "kind", "label", "tag", "class", "department"], CATEGORIES),
    (&["status", "state", "stage"], STATES),
    (&["priority", "severity", "urgency", "level", "risk"], LEVELS),
    (&["sentiment", "mood", "tone"], MOODS),
    (&["currency"], CURRENCIES),
    (&["language", "lang", "locale"], LANGUAGES),
    (&["colour", "color"], COLOURS),
    (&["role", "job", "profession"], ROLES),
    (&["title", "headline", "subject", "heading", "caption"], Headline),
    (&["summary", "text", "body", "content", "description", "message", "reason", "why", "comment"], Sentence),
    (&["answer", "report", "explanation", "note", "letter", "mail", "draft", "analysis", "review"], Sentence),
    (&["feedback", "evidence", "cause", "conclusion", "detail", "paragraph", "translation", "reply"], Sentence),
    (&["response", "argument", "story", "article", "finding", "result", "output", "warning", "snippet"], Sentence),
    (&["question", "task", "action", "step", "instruction", "recommendation", "suggestion", "plan"], Sentence),
    (&["file", "filename", "path", "attachment"], File),
    (&["version", "release"], Version),
    (&["id", "identifier", "key", "reference", "ref", "ticket", "invoice", "order", "sku", "code", "number"], Code),
];

/// Words of names, and between which numbers they lie.
const NUMBERS: &[(&[&str], Look)] = &[
    (&["price", "cost", "amount", "total", "fee", "budget", "salary", "revenue", "usd", "eur", "balance"], AMOUNT),
    (&["score", "confidence", "probability", "similarity", "relevance", "ratio", "likelihood", "rate"], SHARE),
    (&["percent", "percentage", "discount"], Range(0.0, 100.0)),
    (&["rating", "star"], Range(1.0, 5.0)),
    (&["year"], Range(2019.0, 2027.0)),
    (&["month"], Range(1.0, 12.0)),
    (&["age"], Range(18.0, 80.0)),
    (&["latitude", "lat"], Range(-60.0, 70.0)),
    (&["longitude", "lon", "lng"], Range(-170.0, 170.0)),
    (&["temperature"], Range(-5.0, 30.0)),
    (&["count", "quantity", "limit", "page", "size", "n"], FEW),
];

const FACTS: [&str; 12] = [
    "two of the five entries have changed since yesterday",
    "the first option is the cheapest one",
    "nothing unusual was found",
    "the figures rose by four percent",
    "most customers asked about delivery",
    "three points still need a decision",
    "the second source confirms the first",
    "the deadline can be kept",
    "one document is missing",
    "the old rule no longer applies",
    "both sides agree on the main point",
    "it works, with one small exception",
];

/// What a text stands for, by its name, else by its description.
pub fn of_text(name: &str, description: &str) -> Option<Look> {
    named(TEXTS, name).or_else(|| (words(name) == ["name"]).then_some(PEOPLE)).or_else(|| described(TEXTS, description))
}

/// The bounds of a number, by its name, else by its description.
pub fn of_number(name: &str, description: &str) -> Option<(f64, f64)> {
    match named(NUMBERS, name).or_else(|| described(NUMBERS, description))? {
        Range(low, high) => Some((low, high)),
        _ => None,
    }
}

/// The last word that says something decides: a `page_summary` is a summary.
fn named(table: &[(&[&str], Look)], name: &str) -> Option<Look> {
    words(name).iter().rev().find_map(|word| meaning(table, word))
}

/// In a sentence the first word that says something decides.
fn described(table: &[(&[&str], Look)], description: &str) -> Option<Look> {
    words(description).iter().find_map(|word| meaning(table, word))
}

fn meaning(table: &[(&[&str], Look)], word: &str) -> Option<Look> {
    let singular = word.strip_suffix("ies").map(|stem| format!("{stem}y"));
    let singular = singular.as_deref().or_else(|| word.strip_suffix('s')).unwrap_or(word);
    let is_meant = |(known, _): &&(&[&str], Look)| known.contains(&word) || known.contains(&singular);
    table.iter().find(is_meant).map(|(_, look)| *look)
}

/// `unitPrice`, `unit_price` and `Unit price` are the words unit and price.
pub fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
        if let (true, Some(word)) = (letter.is_alphanumeric(), words.last_mut()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A text of this look; the same salt gives the same text, and neighbouring salts different ones.
pub fn text(look: Look, name: &str, salt: u64) -> String {
    let number = salt % 1_000;
    let spoken = words(name).join(" ");
    let spoken =
        spoken.strip_suffix('s').filter(|_| !spoken.ends_with("ss") && !spoken.ends_with("is")).unwrap_or(&spoken);
    let fact = FACTS[(salt % FACTS.len() as u64) as usize];
    let word = |of: &[&str]| of.get((salt % of.len().max(1) as u64) as usize).copied().unwrap_or_default().to_owned();
    match look {
        OneOf(choices) => word(choices),
        Sentence => format!("This is a simulated {spoken}: {fact}."),
        Headline => format!("Simulated {spoken}: {fact}"),
        Email => match PEOPLE {
            OneOf(people) => format!("{}@example.com", word(people).to_lowercase().replace(' ', ".")),
            _ => String::new(),
        },
        Address => format!("{} Mill Street, {}", number % 90 + 1, text(CITIES, name, salt)),
        Url => format!("https://example.com/{}/{number}", words(name).join("-")),
        Phone => format!("+33 1 55 00 {:02} {:02}", number / 100 + 10, number % 100),
        Date => format!("2026-{:02}-{:02}", number % 12 + 1, number % 28 + 1),
        Time => format!("{:02}:{:02}", number % 12 + 8, number % 4 * 15),
        Moment => format!("2026-{:02}-{:02}T{:02}:00:00Z", number % 12 + 1, number % 28 + 1, number % 24),
        Code => format!("{}-{}", prefix(name), 1_000 + salt % 9_000),
        File => format!("report-{}.md", number + 1),
        Version => format!("1.{}.{}", number % 10, number % 7),
        Range(low, high) => format!("{:.2}", low + (high - low) * (number as f64 / 1_000.0)),
    }
}

/// Three letters of the first word that is not itself `id` or the like.
fn prefix(name: &str) -> String {
    let words = words(name);
    let word = words.first().map_or("id", String::as_str);
    word.chars().take(3).flat_map(char::to_uppercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_text_stands_for() {
        let check = |name: &str, description: &str, expected: Option<Look>| {
            assert_eq!(of_text(name, description), expected, "{name} ({description})");
        };
        check("contactEmail", "", Some(Email));
        check("page_summary", "", Some(Sentence));
        check("summary_url", "", Some(Url));
        check("Shops", "", Some(COMPANIES));
        check("categories", "", Some(CATEGORIES));
        check("name", "", Some(PEOPLE));
        check("product_name", "", Some(PRODUCTS));
        check("x", "The city to fly to", Some(CITIES));
        check("x", "", None);
        assert_eq!(of_number("unitPrice", ""), Some((4.0, 400.0)));
        assert_eq!(of_number("x", "a score of the match"), Some((0.0, 1.0)));
        assert_eq!(of_number("old", ""), None);
    }

    #[test]
    fn texts_read_like_what_they_stand_for() {
        let check = |name: &str, expected: &str| {
            let look = of_text(name, "").unwrap_or(Code);
            assert_eq!(text(look, name, 3), expected, "{name}");
        };
        check("email", "jonas.weber@example.com");
        check("order_id", "ORD-1003");
        check("summary", "This is a simulated summary: the figures rose by four percent.");
        check("warnings", "This is a simulated warning: the figures rose by four percent.");
        check("analysis", "This is a simulated analysis: the figures rose by four percent.");
        check("headline", "Simulated headline: the figures rose by four percent");
        check("shop", "Alpine Supply");
        check("due", "2026-04-04");
        check("address", "4 Mill Street, Leeds");
    }
}
