//! The engine against regex-lite, which has the same syntax, and against regex.

use super::{Regex, Scratch};
use proptest::prelude::*;

/// All matches as the replacement sees them.
fn matches(pattern: &str, text: &str) -> Vec<String> {
    let regex = Regex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error:?}"));
    let mut found = Vec::new();
    let mut put = |text: &str, _: &mut String| found.push(text.to_owned());
    regex.replace(text, usize::MAX, &mut Scratch::default(), &mut put);
    found
}

/// The text with `<…>` around each match.
fn marked(regex: &Regex, text: &str) -> String {
    let mut put = |found: &str, out: &mut String| out.extend(["<", found, ">"]);
    let marked = regex.replace(text, usize::MAX, &mut Scratch::default(), &mut put);
    marked.unwrap_or_else(|| text.to_owned())
}

fn marked_by_regex_lite(regex: &regex_lite::Regex, text: &str) -> String {
    regex.replace_all(text, |found: &regex_lite::Captures<'_>| format!("<{}>", &found[0])).into()
}

fn refused(pattern: &str) -> (&'static str, usize) {
    let error = Regex::new(pattern).expect_err(pattern);
    (error.reason, error.at)
}

#[test]
fn the_leftmost_match_counts_and_of_those_the_preferred_one() {
    assert_eq!(matches("a|ab", "xab ab"), ["a", "a"]);
    assert_eq!(matches("ab|a", "xab a"), ["ab", "a"]);
    assert_eq!(matches("a+?", "aaa"), ["a", "a", "a"]);
    assert_eq!(matches("(?U)a+", "aa"), ["a", "a"]);
    assert_eq!(matches("x*", "axb"), ["", "x", ""]);
    assert_eq!(matches("(|a)*", "aa"), ["", "", ""]);
    assert_eq!(matches(r"\b", "ab é c"), [""; 4]);
    assert_eq!(matches("(?i)pass(?-i)W", "PASSW passw passW"), ["PASSW", "passW"]);
    assert_eq!(matches("(?P<key>a)(?:b){2}", "abb"), ["abb"]);
}

#[test]
fn errors_name_the_construct_and_its_place() {
    assert_eq!(refused("a(?=b)"), (super::compile::LOOK_AROUND, 3));
    for (pattern, reason, at) in [
        ("a)", "`)` without `(`", 2),
        ("(a", "`(` without `)`", 2),
        ("[a", "`[` without `]`", 2),
        ("[a[b]]", "a class within a class is not supported, or not one of `[:alpha:]` …", 3),
        ("[a&&b]", "`&&`, `--` and `~~` in a class are not supported", 3),
        ("[z-a]", "a range in a class whose end is before its begin", 4),
        (r"[\d-z]", "a range in a class from or to a class", 5),
        (r"[\b]", "an assertion in a class", 3),
        ("|*", "a repetition of nothing", 2),
        ("a{3", "`{` without `}`", 3),
        ("a{,3}", "`{` without a number", 2),
        ("a{3,2}", "a repetition whose maximum is below its minimum", 5),
        ("(?x) a", "flag `x` is not supported", 3),
        ("(?k)", "an unknown flag or kind of group", 3),
        ("(?ii)", "a flag that is there twice", 4),
        ("(?P=n)", "an unknown kind of group", 3),
        ("(?<>a)", "a wrong name of a group", 4),
        (r"\pL", "classes of Unicode (`\\p`) are not supported", 2),
        (r"(a)\1", "back-references (`\\1`) are not supported", 5),
        (r"\e", "an unknown escape", 2),
        (r"a\", "`\\` at the end", 2),
        (r"\x{d800}", "a character by number (`\\x41`, `\\x{1f600}`) that is none", 8),
    ] {
        assert_eq!(refused(pattern), (reason, at), "{pattern}");
    }
}

#[test]
fn patterns_that_grow_or_lie_too_deep_are_refused() {
    for pattern in
        ["a{1000000}", "(?:){99999999999999999999}", "(((a{99}){99}){99}){99}", "(a{9999}|){9,}"]
    {
        assert_eq!(refused(pattern).0, super::compile::TOO_LARGE, "{pattern}");
    }
    assert_eq!(refused(&"a|b".repeat(20_000)).0, super::compile::TOO_LARGE);
    assert_eq!(refused(&"[a-z]".repeat(20_000)).0, super::compile::TOO_LARGE);
    assert!(Regex::new("a{16383}").is_ok());
    for (one, close) in [("(", ")"), ("(?:", ")"), ("(a|", ")"), ("(", ")*")] {
        let nested = |depth| [one.repeat(depth), "a".to_owned(), close.repeat(depth)].concat();
        assert!(Regex::new(&nested(50)).is_ok());
        assert_eq!(refused(&nested(51)).0, super::compile::TOO_DEEP);
    }
    assert_eq!(refused(&["a", &"*".repeat(51)].concat()).0, super::compile::TOO_DEEP);
}

#[test]
fn patterns_that_make_others_backtrack_take_linear_time() {
    let text = "a".repeat(4000);
    for pattern in ["(a*)*b", "(a|aa)+b", "(a?){40}a{40}b", "(.*)(.*)(.*)(.*)x", "(a|a|a)*?b"] {
        assert!(matches(pattern, &text).is_empty(), "{pattern}");
    }
}

#[test]
fn replacing_ends_at_the_limit_between_characters() {
    let regex = Regex::new("").unwrap();
    let mut put = |_: &str, out: &mut String| out.push_str("éé");
    let cut = regex.replace(&"a".repeat(1000), 6, &mut Scratch::default(), &mut put);
    assert_eq!(cut.as_deref(), Some("ééa"));
}

/// A pattern of all that the syntax has.
fn pattern() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "a",
        "b",
        "é",
        "1",
        " ",
        "",
        ".",
        "^",
        "$",
        r"\n",
        r"\x61",
        r"\u{e9}",
        r"\.",
        "[ab]",
        "[^a]",
        "[a-cé]",
        "[^\\x00-z]",
        "[]a-]",
        "[-a]",
        "[^]1]",
        r"[\d_a]",
        r"[^\w]",
        r"[\Wa]",
        "[[:alpha:]]",
        "[[:^digit:]1]",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\b",
        r"\B",
        r"\<",
        r"\>",
        r"\A",
        r"\z",
        "(?m:^)",
        "(?m:$)",
        "(?mR:^)",
        "(?mR:$)",
        "(?s:.)",
        "(?R:.)",
        "(?i:a)",
        "(?i:[^b-z])",
        "(?i:[A-Cé])",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(5, 24, 4, |inner| {
        let repeats = prop::sample::select(vec![
            "*",
            "+",
            "?",
            "*?",
            "+?",
            "??",
            "{2}",
            "{0}",
            "{1,2}",
            "{0,2}?",
            "{2,}",
            "{0,}?",
            "{1,3}?",
            "{ 1 , 2 }",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(|all| all.concat()),
            prop::collection::vec(inner.clone(), 1..4)
                .prop_map(|all| format!("({})", all.join("|"))),
            prop::collection::vec(inner.clone(), 1..3)
                .prop_map(|all| format!("(?:{})", all.join("|"))),
            (inner.clone(), repeats).prop_map(|(inner, repeat)| format!("(?:{inner}){repeat}")),
            inner.clone().prop_map(|inner| format!("(?i:{inner})")),
            inner.clone().prop_map(|inner| format!("(?U:{inner})")),
            inner.prop_map(|inner| format!("(?s-i){inner}|")),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    let chars = prop::sample::select("aaabbcABé1_ .\n\r-]".chars().collect::<Vec<_>>());
    prop::collection::vec(chars, 0..24).prop_map(|chars| chars.into_iter().collect())
}

/// The pattern with the classes of ASCII that regex takes as those of Unicode.
fn for_regex(pattern: &str) -> String {
    let mut ascii = pattern.to_owned();
    for (unicode, explicit) in [
        (r"[\Wa]", "[[:^word:]a]"),
        (r"[^\w]", "[^[:word:]]"),
        (r"[\d_a]", "[0-9_a]"),
        (r"\d", "[0-9]"),
        (r"\D", "[^0-9]"),
        (r"\w", "[0-9A-Za-z_]"),
        (r"\W", "[^0-9A-Za-z_]"),
        (r"\s", r"[\t-\r ]"),
        (r"\S", r"[^\t-\r ]"),
        (r"\b", r"(?-u:\b)"),
        (r"\B", r"(?-u:\B)"),
        (r"\<", r"(?-u:\<)"),
        (r"\>", r"(?-u:\>)"),
        ("{ 1 , 2 }", "{1,2}"),
    ] {
        ascii = ascii.replace(unicode, explicit);
    }
    ascii
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn matches_are_those_of_regex_lite_and_of_regex(pattern in pattern(), texts in prop::collection::vec(text(), 4)) {
        let ours = Regex::new(&pattern).unwrap();
        let lite = regex_lite::Regex::new(&pattern).unwrap();
        let full = regex::Regex::new(&for_regex(&pattern)).unwrap();
        for text in texts {
            let ours = marked(&ours, &text);
            prop_assert_eq!(&ours, &marked_by_regex_lite(&lite, &text), "{} {:?}", pattern, text);
            let full = full.replace_all(&text, |found: &regex::Captures<'_>| format!("<{}>", &found[0]));
            prop_assert_eq!(&ours, &full, "{} {:?}", pattern, text);
        }
    }

    /// Of anything that looks like a pattern, the same ones are accepted and find the same.
    #[test]
    fn any_text_is_the_pattern_that_it_is_for_regex_lite(
        parts in prop::collection::vec(prop::sample::select(vec![
            "a", "b", "é", "(", ")", "[", "]", "{", "}", "|", "*", "+", "?", ".", "^", "$", "\\", "-", ",", "0", "2", ":",
            "(?", "(?i)", "P<n>", "[:alpha:]", "[^", "\\d", "\\b", "\\x61", "&", "~", "<", "=", "\n", " ", "(?:", "(?s:",
        ]), 0..12),
        text in text(),
    ) {
        let pattern = parts.concat();
        let ours = Regex::new(&pattern);
        let lite = regex_lite::Regex::new(&pattern);
        if let (Ok(ours), Ok(lite)) = (&ours, &lite) {
            prop_assert_eq!(marked(ours, &text), marked_by_regex_lite(lite, &text), "{:?} {:?}", pattern, text);
        }
        // regex-lite repeats what is before a directive (`a(?i)*`), and has no ranges of escaped letters after (?i).
        let is_odd = pattern.contains("(?i)") || pattern.contains("(?-");
        prop_assert!(is_odd || ours.is_ok() == lite.is_ok(), "{:?}: {:?}, {:?}", pattern, ours, lite);
    }

    #[test]
    fn no_pattern_and_no_text_makes_it_panic(pattern in ".{0,40}", text in ".{0,40}") {
        if let Ok(regex) = Regex::new(&pattern) {
            let _ = marked(&regex, &text);
        }
    }
}
