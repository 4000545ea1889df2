//! Begin and end of alerts, and the forms of messages.

use super::webhook::{alertmanager, signature, slack};
use super::*;
use std::fs;

fn guarded() -> Guarded {
    let json = r#"{"app": "com.a", "from": "2.0", "to": "2.1"}"#;
    serde_json::from_str(json).unwrap()
}

fn finding(keys: &[&str]) -> Finding {
    let rise = |key: &&str| Rise {
        screen: Some("Feed".into()),
        cause: "section".into(),
        key: (*key).into(),
        rise: 5.0,
        earlier: 50.0,
        devices: 40,
        ..Rise::default()
    };
    let mut rises: Vec<Rise> = keys.iter().map(rise).collect();
    Finding { root: rises.remove(0), others: rises, ..Finding::default() }
}

fn answer(findings: &[&[&str]]) -> Answer {
    Answer { findings: findings.iter().map(|keys| finding(keys)).collect(), ..Answer::default() }
}

#[test]
fn a_finding_has_one_message_and_another_when_it_ends() {
    let urls = ["a".to_owned(), "b".to_owned()];
    let mut state = State::default();
    let sent = |state: &mut State| {
        let sent = std::mem::take(&mut state.pending).into_iter();
        sent.map(|of| format!("{} {} {:?}", of.url, of.alert.key, of.ended_ms)).collect::<Vec<_>>()
    };
    state.take(&guarded(), &answer(&[]), &urls, 1);
    assert_eq!(state, State::default());
    state.take(&guarded(), &answer(&[&["bind", "draw"]]), &urls, 2);
    assert_eq!(sent(&mut state), ["a bind None", "b bind None"]);
    // The same finding, whose strongest rise is another one now; then a second one beside it.
    state.take(&guarded(), &answer(&[&["draw", "bind"]]), &urls, 3);
    assert!(sent(&mut state).is_empty());
    state.take(&guarded(), &answer(&[&["draw", "bind"], &["load"]]), &urls, 4);
    assert_eq!(sent(&mut state), ["a load None", "b load None"]);
    // Another rollout has no say.
    let other = Guarded { to: "2.2".to_owned(), ..guarded() };
    state.take(&other, &answer(&[]), &urls, 5);
    assert!(sent(&mut state).is_empty());
    state.take(&guarded(), &answer(&[&["load"]]), &urls, 6);
    assert_eq!(sent(&mut state), ["a bind Some(6)", "b bind Some(6)"]);
    state.take(&guarded(), &answer(&[]), &urls, 7);
    assert_eq!(sent(&mut state), ["a load Some(7)", "b load Some(7)"]);
    assert_eq!(state, State::default());
    for _ in 0..MOST_PENDING {
        let finding = answer(&[&["bind"]]);
        state.take(&guarded(), &finding, &urls, 8);
        state.take(&guarded(), &answer(&[]), &urls, 9);
    }
    assert_eq!(state.pending.len(), MOST_PENDING);
}

#[test]
fn messages_have_the_forms_of_their_receivers() {
    let mut state = State::default();
    state.take(&guarded(), &answer(&[&["a<b"]]), &["u".to_owned()], 1_795_219_200_000);
    let mut message = state.pending.remove(0);
    let begins = alertmanager(&message, Some("https://page/"));
    assert_eq!(begins[0]["labels"]["key"], "a<b");
    assert_eq!(begins[0]["startsAt"], "2026-11-21T00:00:00.000Z");
    assert_eq!(begins[0]["endsAt"], "2027-11-21T00:00:00.000Z");
    assert_eq!(begins[0]["generatorURL"], "https://page/");
    let text = slack(&message, None)["text"].as_str().unwrap().to_owned();
    assert!(
        text.starts_with("com.a: 2.1 is worse than 2.0\nFeed: section a&lt;b +5.0 ms"),
        "{text}"
    );
    message.ended_ms = Some(1_795_219_260_000);
    message.alert.example = Some("captures/x/timeline".to_owned());
    assert_eq!(alertmanager(&message, None)[0]["endsAt"], "2026-11-21T00:01:00.000Z");
    let text = slack(&message, Some("https://page"))["text"].as_str().unwrap().to_owned();
    assert!(
        text.contains(": ended, ") && text.ends_with("<https://page/captures/x/timeline>"),
        "{text}"
    );
    // The example of GitHub's documentation of webhooks.
    let digest = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    assert_eq!(signature(b"It's a Secret to Everybody", b"Hello, World!"), digest);
}

#[test]
fn a_wrong_file_says_which_part() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("guard.json");
    for (text, why) in [
        ("{", "EOF"),
        (r#"{"rollouts": [], "colour": 1}"#, "unknown field `colour`"),
        (r#"{"rollouts": [], "every_s": 0}"#, "every_s: not from 1"),
        (r#"{"rollouts": [{"app": "a", "from": "1", "to": "2", "segment": "x"}]}"#, "segment: "),
        (
            r#"{"rollouts": [], "webhooks": [{"url": "slack", "form": "slack"}]}"#,
            "is not an address",
        ),
        (
            r#"{"rollouts": [], "webhooks": [{"url": "http://a", "form": "mail"}]}"#,
            "unknown variant `mail`",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let error = format!("{:#}", GuardFile::read(&path).unwrap_err());
        assert!(error.contains(why) && error.contains("guard.json"), "{error}");
    }
}
