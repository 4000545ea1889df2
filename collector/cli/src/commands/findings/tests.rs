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
    assert_eq!((state.open[0].since_ms, state.open[1].since_ms), (2, 4));
    // Another rollout has no say.
    let other = Guarded { to: "2.2".to_owned(), ..guarded() };
    state.take(&other, &answer(&[]), 5);
    assert_eq!(keys(&state), ["bind", "load"]);
    state.take(&guarded(), &answer(&[&["load"]]), 6);
    assert_eq!(keys(&state), ["load"]);
    state.take(&guarded(), &answer(&[]), 7);
    assert!(state.open.is_empty());
}

#[test]
fn a_rollout_has_so_many_findings_at_most() {
    let keys: Vec<String> = (0..60).map(|number| format!("key{number}")).collect();
    let findings: Vec<[&str; 1]> = keys.iter().map(|key| [&**key]).collect();
    let findings: Vec<&[&str]> = findings.iter().map(|keys| &keys[..]).collect();
    let mut state = State::default();
    state.take(&guarded(), &answer(&findings), 1);
    assert_eq!(state.open.len(), MOST_FINDINGS);
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
