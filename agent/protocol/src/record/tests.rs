//! Records, words and choices as the macros make them.

use super::*;
use crate::{choice, record, words};
use proptest::prelude::*;

record! {
    /// The root.
    struct Root {
        /// A number.
        number: u32 = 7; within(1..=9),
        /// A must.
        must: Option<Must> = None; omit(Option::is_none),
        /// A list.
        many["list"]: Vec<Leaf> = vec![Leaf::default()]; count(1..=2),
        /// A choice.
        choice: Choice = Choice::Nothing,
        /// A pair.
        pair: Option<(u64, i64)> = None; omit(Option::is_none),
    }
    /// A record with required fields.
    #[derive(Eq)]
    struct Must {
        /// May be missing.
        may: bool = true,
        /// The first that must be there.
        first: u64 = 0; required(); within(0..=5),
        /// The second one.
        second: String = String::new(); required(),
    }
    /// A leaf.
    #[derive(Eq)]
    struct Leaf {
        /// A name.
        name: String = "x".to_owned(); check(not_empty),
        /// A word.
        word: Word = Word::Two,
        /// Another number.
        other: Option<u64> = None; within(0..=5),
    }
}

words! {
    /// A word.
    enum Word {
        /// One.
        One = "one",
        /// Two.
        Two = "two",
    }
}

choice! {
    /// A choice.
    enum Choice {
        /// Nothing.
        Nothing = "nothing",
        /// A leaf.
        Leaf(Leaf) = "leaf",
    }
}

fn not_empty(text: &str) -> Result<(), String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(()) }
}

fn read_checked(text: &str) -> Result<Root, Error> {
    let root = parse(text.as_bytes(), Limits::DEFAULT)?;
    check(&root)?;
    Ok(root)
}

#[test]
fn missing_fields_have_their_defaults() {
    assert_eq!(read_checked("{}").unwrap(), Root::default());
    let root = read_checked(r#"{"list": [{"other": null}, {"word": "one"}]}"#).unwrap();
    assert_eq!(root.many, [Leaf::default(), Leaf { word: Word::One, ..Leaf::default() }]);
}

#[test]
fn a_wrong_field_is_named_with_its_limit() {
    for (text, error) in [
        ("[]", "must be an object, not an array (line 1, column 1)"),
        (r#"{"number": 0}"#, "number: 0 is not from 1 to 9"),
        (
            r#"{"number": -1}"#,
            "number: must be a whole number from 0 to 4294967295, not -1 (line 1, column 12)",
        ),
        (r#"{"list": []}"#, "list: has 0 entries, must have from 1 to 2"),
        (r#"{"list": [{}, {"other": 6}]}"#, "list[1].other: 6 is not from 0 to 5"),
        (r#"{"list": [{"name": ""}]}"#, "list[0].name: must not be empty"),
        (
            r#"{"list": [{"word": "three"}]}"#,
            "list[0].word: must be one of one, two, not \"three\" (line 1, column 20)",
        ),
        (r#"{"choice": {"leaf": {"name": ""}}}"#, "choice.leaf.name: must not be empty"),
        (r#"{"choice": {"leaf": 3}}"#, "choice.leaf: must be an object, not 3 (line 1, column 21)"),
        (
            r#"{"choice": "leaf"}"#,
            "choice: must be an object with one member, not \"leaf\" (line 1, column 12)",
        ),
        (
            r#"{"choice": {"nothing": {}}}"#,
            "choice: must be a text, not an object (line 1, column 12)",
        ),
        (r#"{"must": {}}"#, "must.first: is missing (line 1, column 10)"),
        (r#"{"must": {"first": 6}}"#, "must.second: is missing (line 1, column 10)"),
        (r#"{"must": {"second": "", "first": 6}}"#, "must.first: 6 is not from 0 to 5"),
        (r#"{"pair": [1]}"#, "pair: must be an array of two, not an array (line 1, column 10)"),
        (r#"{"number": 1, "x": 1, "number": 1}"#, "number: is there twice (line 1, column 33)"),
    ] {
        assert_eq!(read_checked(text).unwrap_err().to_string(), error, "{text}");
    }
}

#[test]
fn unknown_fields_are_named() {
    let text = br#"{"size": {"a": 1}, "list": [{"colour": 1}], "choice": {"leaf": {"": 1}}}"#;
    let tree = Tree::parse(text, Limits::DEFAULT).unwrap();
    read::<Root>(tree.root()).unwrap();
    assert_eq!(tree.unknown(), ["size", "list[0].colour", "choice.leaf."]);
}

#[test]
fn the_schema_has_description_default_and_limits() {
    let schema = crate::record::schema_tests::document::<Root>("Root");
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let number = &schema["properties"]["number"];
    assert_eq!(number["description"], "A number.");
    assert_eq!((&number["minimum"], &number["maximum"]), (&1.into(), &9.into()));
    assert_eq!(number["default"], 7);
    assert_eq!(schema["properties"]["list"]["maxItems"], 2);
    assert_eq!(schema["properties"]["list"]["items"]["$ref"], "#/$defs/Leaf");
    let must = &schema["$defs"]["Must"];
    assert_eq!(must["required"], serde_json::json!(["first", "second"]));
    assert!(must["properties"]["first"].get("default").is_none());
    assert_eq!(must["properties"]["may"]["default"], true);
    let other = &schema["$defs"]["Leaf"]["properties"]["other"];
    assert_eq!(other["type"], serde_json::json!(["integer", "null"]));
    assert_eq!(schema["$defs"]["Choice"]["oneOf"][0]["const"], "nothing");
    assert_eq!(schema["$defs"]["Choice"]["oneOf"][1]["required"][0], "leaf");
}

proptest! {
    #[test]
    fn a_written_record_is_read_back(
        number: u32, names: Vec<String>, pair: Option<(u64, i64)>, is_leaf: bool, other: Option<u64>,
    ) {
        let leaf = |name| Leaf { name, word: Word::One, other };
        let root = Root {
            number,
            must: None,
            many: names.into_iter().map(leaf).collect(),
            choice: if is_leaf { Choice::Leaf(leaf("é\"\\".to_owned())) } else { Choice::Nothing },
            pair,
        };
        let json = to_json(&root);
        prop_assert_eq!(parse::<Root>(json.as_bytes(), Limits::DEFAULT).unwrap(), root);
        let oracle: serde_json::Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(oracle.get("pair").is_some(), pair.is_some());
    }
}
