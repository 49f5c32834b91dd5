//! Tokens from the command line.

use crate::support::{Home, ONE_CALL, json_lines};

#[test]
fn a_token_is_made_listed_and_revoked() {
    let home = Home::new(ONE_CALL);
    home.relais(&["token", "list"]).expect(0).says("no tokens");
    let made = home.relais(&["token", "create"]);
    made.expect(0).says("of ada for read, run, write; it is shown this once:");
    let secret = made.out.trim();
    assert!(secret.starts_with("rls_") && !secret.contains(char::is_whitespace), "{secret}");
    let words =
        ["token", "create", "--user", "bob", "--scope", "read", "--scope", "admin", "--name", "ci", "--expires", "90d"];
    home.relais(&words).expect(0).says("of bob for read, admin, until ");
    let listed = home.relais(&["token", "list", "--json"]);
    let tokens = json_lines(&listed.expect(0).out);
    let names: Vec<_> = tokens.iter().map(|token| (token["user"].as_str().unwrap(), &token["name"])).collect();
    assert_eq!(names, [("bob", &"ci".into()), ("ada", &"unnamed".into())]);
    assert!(!listed.out.contains(secret));
    let id = tokens[1]["id"].as_str().unwrap();
    home.relais(&["token", "revoke", id]).expect(0).says("(unnamed)");
    let listed = home.relais(&["token", "list", "--user", "ada"]);
    assert!(listed.expect(0).out.contains("revoked ") && !listed.out.contains("bob"), "{}", listed.out);
}

#[test]
fn what_makes_no_token_is_told() {
    let home = Home::new(ONE_CALL);
    for (words, part) in [
        (&["--scope", "all"][..], "the scopes are `read`, `run`, `write` and `admin`"),
        (&["--expires", "soon"], "write 90d or 2030-01-01T00:00:00Z"),
        (&["--expires", "2020-01-01T00:00:00Z"], "expired already"),
        (&["--user", ""], "A user id is empty"),
    ] {
        home.relais(&[&["token", "create"], words].concat()).expect(2).says(part);
    }
    let none = "0190a0b0-c0d0-7000-8000-00000000000a";
    home.relais(&["token", "revoke", none]).expect(2).says("there is no token 0190a0b0");
    home.relais(&["serve", "--listen", "203.0.113.1:0"]).expect(2).says("`relais token create`");
}
