//! The reader and the writer against serde_json.

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<Tree<'_>, Error> {
    Tree::parse(text.as_bytes(), Limits::DEFAULT)
}

/// The value as serde_json's.
fn to_oracle(value: Value<'_>) -> serde_json::Value {
    use serde_json::Value as Json;
    match value.kind() {
        Kind::Null => Json::Null,
        Kind::False => Json::Bool(false),
        Kind::True => Json::Bool(true),
        Kind::Text => Json::String(value.text().unwrap().into_owned()),
        Kind::Array => Json::Array(value.items().map(to_oracle).collect()),
        Kind::Object => Json::Object(
            value.members().map(|(key, value)| (key.into_owned(), to_oracle(value))).collect(),
        ),
        Kind::Number => match (value.u64(), value.i64()) {
            (Some(number), _) => number.into(),
            (_, Some(number)) => number.into(),
            _ => value.raw().parse().map_or(Json::Null, |float: f64| float.into()),
        },
    }
}

fn write(value: &serde_json::Value, out: &mut Writer) {
    use serde_json::Value as Json;
    match value {
        Json::Null => out.null(),
        Json::Bool(is) => out.bool(*is),
        Json::String(text) => out.text(text),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => out.u64(number),
            (_, Some(number)) => out.i64(number),
            _ => out.raw(&number.to_string()),
        },
        Json::Array(items) => {
            out.begin_array();
            items.iter().for_each(|item| write(item, out));
            out.end_array()
        }
        Json::Object(members) => {
            out.begin_object();
            for (key, value) in members {
                out.key(key);
                write(value, out);
            }
            out.end_object()
        }
    };
}

/// Equal but for the last places of floats.
fn is_same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((a, x), (b, y))| a == b && is_same(x, y))
        }
        (Json::Number(a), Json::Number(b)) => {
            let (x, y) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            a == b || (x - y).abs() <= x.abs() * 1e-14
        }
        _ => a == b,
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e15..1e15).prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Texts that are nearly JSON.
fn nearly() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\\n",
        "\"\\x\"",
        "0",
        "1",
        "-",
        "01",
        "1.5",
        "-0",
        "1e9",
        "1e",
        ".5",
        "1.",
        "1e999",
        "true",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "é",
        "\u{1}",
    ]);
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_reader_reads_back_each_value_of_the_oracle(value in json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let read = to_oracle(parse(&text).unwrap().root());
            prop_assert!(is_same(&read, &value), "{text}\n{read}");
        }
    }

    #[test]
    fn the_oracle_reads_back_each_written_value(value in json()) {
        let mut out = Writer::new();
        write(&value, &mut out);
        let text = out.finish();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert!(is_same(&read, &value), "{text}");
    }

    #[test]
    fn the_same_texts_are_json(text in nearly()) {
        let oracle = serde_json::from_str::<serde_json::Value>(&text);
        match (parse(&text), oracle) {
            (Ok(tree), Ok(value)) => prop_assert!(is_same(&to_oracle(tree.root()), &value)),
            (Err(_), Err(_)) => {}
            // Numbers beyond all floats are well-formed, and refused when they are requested.
            (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("out of range"), "{text}"),
            (Err(error), Ok(_)) => prop_assert!(false, "{text}: {error}"),
        }
    }

    #[test]
    fn no_bytes_bring_it_down(bytes: Vec<u8>) {
        match Tree::parse(&bytes, Limits::DEFAULT) {
            Ok(tree) => drop(to_oracle(tree.root())),
            Err(error) => prop_assert!(error.position().unwrap().offset <= bytes.len()),
        }
    }

}

#[test]
fn errors_say_where() {
    for (text, expected) in [
        ("", "the text ends too early (line 1, column 1)"),
        ("{\"a\": 1", "a: the text ends too early (line 1, column 8)"),
        ("{\"a\": [1,\n 2 3]}", "a[1]: expected `,` or `]` (line 2, column 4)"),
        ("{\"a\": {\"b\": [{}, {\"c\" 1}]}}", "a.b[1].c: expected `:` (line 1, column 23)"),
        ("{\"a\": 1, }", "a: expected a key in quotes (line 1, column 10)"),
        ("[1] 2", "JSON ends here, but the text continues (line 1, column 5)"),
        ("[\"\u{1}\"]", "a control character in a text must be escaped (line 1, column 3)"),
        ("\"\\ud800x\"", "is not a JSON escape, or is half a surrogate pair (line 1, column 2)"),
        ("[01]", "a number must not begin with 0 (line 1, column 3)"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
    }
    let error = Tree::parse(b"\"ab\xff\"", Limits::DEFAULT).unwrap_err();
    assert_eq!(error.to_string(), "is not UTF-8 (line 1, column 4)");
}

#[test]
fn values_know_their_path() {
    let tree = parse(r#"{"a": [1, {"b": [[], 2]}], "c\n": {"": null}}"#).unwrap();
    let root = tree.root();
    let b = root.get("a").unwrap().items().nth(1).unwrap().get("b").unwrap();
    assert_eq!(root.path(), "");
    assert_eq!(b.path(), "a[1].b");
    assert_eq!(b.items().nth(1).unwrap().path(), "a[1].b[1]");
    assert_eq!(root.get("c\n").unwrap().path(), "c\n");
    assert_eq!(root.get("c\n").unwrap().get("").unwrap().path(), "c\n.");
    assert_eq!(b.raw(), "[[], 2]");
    let expected = b.expected("a number").to_string();
    assert_eq!(expected, "a[1].b: must be a number, not an array (line 1, column 17)");
}

#[test]
fn documents_are_bounded() {
    let limits = Limits { bytes: 40, depth: 3, nodes: 5 };
    let refused = |text: &str| Tree::parse(text.as_bytes(), limits).unwrap_err().to_string();
    assert!(Tree::parse(b"[[[1]]]", limits).is_ok());
    assert_eq!(refused("[[[[1]]]]"), "[0][0]: has 4 levels, at most 3 (line 1, column 4)");
    assert_eq!(refused("[1,2,3,4,5]"), "[3]: has 6 values, at most 5 (line 1, column 11)");
    assert_eq!(refused(&" ".repeat(41)), "has 41 bytes, at most 40");
}

#[test]
fn of_a_key_that_is_there_twice_the_last_one_counts() {
    let tree = parse(r#"{"a": 1, "b": {"c": 1, "\u0063": 2}, "a": 3}"#).unwrap();
    let root = tree.root();
    assert_eq!(root.get("a").and_then(Value::u64), Some(3));
    assert_eq!(root.get("b").and_then(|b| b.get("c")).and_then(Value::u64), Some(2));
    assert!(root.get("c").is_none() && root.get("a").and_then(|a| a.get("a")).is_none());
}

#[test]
fn numbers_are_whole_or_decimals() {
    let numbers = |text: &str| {
        let tree = parse(text).unwrap();
        let value = tree.root();
        (value.u64(), value.i64(), value.decimal().unwrap().to_string())
    };
    assert_eq!(numbers("18446744073709551615").0, Some(u64::MAX));
    assert_eq!(numbers("18446744073709551616").0, None);
    assert_eq!(numbers("-9223372036854775808").1, Some(i64::MIN));
    assert_eq!(numbers("-9223372036854775809").1, None);
    assert_eq!(numbers("1.0"), (None, None, "1".to_owned()));
    assert_eq!(numbers("1e3"), (None, None, "1000".to_owned()));
    assert_eq!(numbers("-7"), (None, Some(-7), "-7".to_owned()));
    assert!(parse("\"1\"").unwrap().root().decimal().is_none());
}

#[test]
fn each_character_is_escaped_where_it_must_be_and_refused_where_it_was_not() {
    for char in (0..0x300).filter_map(char::from_u32) {
        let text = format!("a{char}b");
        let mut out = Writer::new();
        out.text(&text);
        let json = out.finish();
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text, "{json}");
        assert_eq!(parse(&json).unwrap().root().text().unwrap(), text, "{json}");
        let bare = format!("\"{text}\"");
        let escaped = format!("\"a\\{char}\"");
        for json in [&bare, &escaped] {
            let oracle = serde_json::from_str::<String>(json).ok();
            let read = parse(json).ok().map(|tree| tree.root().text().unwrap().into_owned());
            assert_eq!(read, oracle, "{json}");
        }
    }
}

#[test]
fn half_a_surrogate_pair_is_no_character() {
    for escapes in [
        r"\ud83d",
        r"\ud83dx",
        r"\ud83d\n",
        r"\ud83d\u0041",
        r"\ud83d\ud83d",
        r"\ud83d\ue000",
        r"\udc00",
    ] {
        let json = format!("\"{escapes}\"");
        assert!(serde_json::from_str::<String>(&json).is_err(), "{json}");
        assert!(parse(&json).is_err(), "{json}");
    }
    assert_eq!(parse(r#""\ud83d\uDE00""#).unwrap().root().text().unwrap(), "\u{1f600}");
}
