//! Begin and end of findings, and the file of the rollouts.

use super::*;
use std::fs;
use tracetee_fleet::change::estimate::Estimate;

fn guarded() -> Guarded {
    let json = r#"{"app": "com.a", "from": "2.0", "to": "2.1"}"#;
    serde_json::from_str(json).unwrap()
}

fn finding(keys: &[&str]) -> Finding {
    let rise = |key: &&str| Rise {
        screen: Some("Feed".into()),
        cause: "section".into(),
        key: (*key).into(),
        estimate: Estimate { percent: 10.0, ..Estimate::default() },
        ..Rise::default()
    };
    let mut rises: Vec<Rise> = keys.iter().map(rise).collect();
    Finding { root: rises.remove(0), others: rises, ..Finding::default() }
}

fn answer(findings: &[&[&str]]) -> Answer {
    Answer { findings: findings.iter().map(|keys| finding(keys)).collect(), ..Answer::default() }
}

#[test]
fn a_finding_begins_once_and_ends_once() {
    let mut state = State::default();
    let keys = |state: &State| state.open.iter().map(|open| open.key.clone()).collect::<Vec<_>>();
    state.take(&guarded(), &answer(&[]), 1);
    assert_eq!(state, State::default());
    state.take(&guarded(), &answer(&[&["bind", "draw"]]), 2);
    assert_eq!(keys(&state), ["bind"]);
    // The same finding, whose strongest rise is another one now; then a second one beside it.
    state.take(&guarded(), &answer(&[&["draw", "bind"]]), 3);
    assert_eq!(keys(&state), ["bind"]);
    state.take(&guarded(), &answer(&[&["draw", "bind"], &["load"]]), 4);
    assert_eq!(keys(&state), ["bind", "load"]);
    // Another rollout has no say.
    let other = Guarded { to: "2.2".to_owned(), ..guarded() };
    state.take(&other, &answer(&[]), 5);
    assert_eq!(keys(&state), ["bind", "load"]);
    state.take(&guarded(), &answer(&[&["load"]]), 6);
    assert_eq!(keys(&state), ["load"]);
    state.take(&guarded(), &answer(&[]), 7);
    assert!(state.open.is_empty());
    let told = |message: &Message| (message.finding.key.clone(), message.ended_ms);
    let told: Vec<_> = state.pending.iter().map(told).collect();
    let [bind, load] = ["bind", "load"].map(str::to_owned);
    let all = [(bind.clone(), None), (load.clone(), None), (bind, Some(6)), (load, Some(7))];
    assert_eq!(told, all);
}

#[test]
fn of_too_many_messages_those_of_the_app_with_most_go() {
    let mut state = State::default();
    for (app, messages) in [("quiet", 2), ("loud", 30), ("calm", 3)] {
        let guarded = Guarded { app: app.to_owned(), ..guarded() };
        for _ in 0..messages / 2 {
            state.take(&guarded, &answer(&[&["bind"]]), 1);
            state.take(&guarded, &answer(&[]), 2);
        }
    }
    assert_eq!(state.drop_surplus(8), 26);
    let count =
        |app: &str| state.pending.iter().filter(|pending| pending.finding.app == app).count();
    assert_eq!((count("quiet"), count("loud"), count("calm")), (2, 4, 2));
    // A rollout has so many findings at most.
    let keys: Vec<String> = (0..60).map(|number| format!("key{number}")).collect();
    let findings: Vec<[&str; 1]> = keys.iter().map(|key| [&**key]).collect();
    let findings: Vec<&[&str]> = findings.iter().map(|keys| &keys[..]).collect();
    let mut state = State::default();
    state.take(&guarded(), &answer(&findings), 1);
    assert_eq!(state.open.len(), MOST_FINDINGS);
}

#[test]
fn a_message_has_all_of_its_finding() {
    let mut state = State::default();
    state.take(&guarded(), &answer(&[&["a<b"]]), 1_795_219_200_000);
    let mut message = state.pending.remove(0);
    let json = |message: &Message| serde_json::from_str::<serde_json::Value>(&message.to_json());
    let begins = json(&message).unwrap();
    assert_eq!(begins["event"], "begin");
    assert_eq!((&begins["app"], &begins["key"]), (&"com.a".into(), &"a<b".into()));
    assert_eq!(
        (&begins["since"], &begins["ended"]),
        (&"2026-11-21T00:00:00.000Z".into(), &serde_json::Value::Null)
    );
    let text = begins["text"].as_str().unwrap();
    assert!(text.starts_with("com.a: 2.1 is worse than 2.0\nFeed: section a<b +10 %"), "{text}");
    message.ended_ms = Some(1_795_219_260_000);
    let ends = json(&message).unwrap();
    assert_eq!(
        (&ends["event"], &ends["ended"]),
        (&"end".into(), &"2026-11-21T00:01:00.000Z".into())
    );
    assert!(ends["text"].as_str().unwrap().contains(": ended, "));
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
    ] {
        fs::write(&path, text).unwrap();
        let error = format!("{:#}", GuardFile::read(&path).unwrap_err());
        assert!(error.contains(why) && error.contains("guard.json"), "{error}");
    }
}
