//! The state machine's transitions one by one, and random histories of a device against what must
//! always hold.

use super::*;
use crate::controller::policy::Device;
use proptest::prelude::*;
use tracetee_protocol::remote_config::{Budget, Jank, Schedule};
use tracetee_protocol::remote_config::{Document, Kill, SectionSpan, Trigger, Triggers, Window};

fn window(id: &str, opens: Opens) -> Window {
    Window {
        id: id.to_owned(),
        opens,
        max_s: Decimal::whole(10),
        cool_down_s: 60,
        ..Window::default()
    }
}

fn jank() -> Opens {
    Opens::Triggers(Triggers { any: vec![Trigger::Jank(Jank::default())], ..Triggers::default() })
}

fn section() -> Opens {
    Opens::Section(SectionSpan { from: "a".into(), ..SectionSpan::default() })
}

fn document(windows: Vec<Window>) -> Document {
    Document { schema: 1, seq: 1, windows, ..Document::default() }
}

fn policy(document: Document) -> Input {
    Input::Policy(Arc::new(Policy::new(document, &Device::default())))
}

const fn at(s: u64) -> Now {
    Now { boot_ms: s * 1000, real_ms: 1_000_000_000 + s * 1000 }
}

/// A machine under that configuration since second 0, and what it did first.
fn machine(windows: Vec<Window>) -> (StateMachine, Vec<Action>) {
    let mut machine = StateMachine::new(Ledger::default().for_boot("a", 1));
    let actions = machine.step(at(0), policy(document(windows)));
    (machine, actions)
}

fn fired(window: usize, s: u64) -> Input {
    let ns = s * 1_000_000_000;
    Input::Fired { window, why: "jank".into(), from_ns: ns - 1, to_ns: ns + 2_000_000_000 }
}

fn record(windows: &[usize], flight: bool) -> Action {
    Action::Record { windows: windows.to_vec(), flight }
}

fn kept(actions: &[Action]) -> Vec<usize> {
    let window_of = |action: &Action| match action {
        Action::Keep(kept) => Some(kept.window),
        _ => None,
    };
    actions.iter().filter_map(window_of).collect()
}

#[test]
fn without_a_configuration_it_is_off() {
    let mut machine = StateMachine::new(Ledger::default());
    assert_eq!(machine.step(at(0), Input::Tick), []);
    assert_eq!(machine.state, State::Off("there is no configuration yet".into()));
}

#[test]
fn a_start_window_opens_with_the_first_step_only_and_closes_by_itself() {
    let (mut machine, actions) = machine(vec![window("w", Opens::AppStart)]);
    assert_eq!(actions, [Action::Save, record(&[0], false)]);
    assert_eq!(machine.step(at(9), Input::Tick), []);
    let actions = machine.step(at(10), Input::Tick);
    assert_eq!((&actions[0], kept(&actions)), (&Action::Stop, vec![0]));
    assert!(matches!(machine.state, State::Off(_)));
    assert_eq!(machine.step(at(1000), Input::Tick), []);

    let mut late = StateMachine::new(Ledger::default());
    late.step(at(0), Input::Tick);
    assert_eq!(late.step(at(1), policy(document(vec![window("w", Opens::AppStart)]))), []);
}

#[test]
fn a_manual_window_opens_when_asked_for_and_closes_when_told_to() {
    let (mut machine, actions) = machine(vec![window("w", Opens::Manual)]);
    assert_eq!(actions, []);
    let actions = machine.step(at(1), Input::Open("w".into()));
    assert_eq!(actions, [Action::Save, record(&[0], false)]);
    let actions = machine.step(at(3), Input::Close("w".into()));
    assert_eq!(kept(&actions), [0]);
    // The cool-down: who asks is told, and it does not open by itself later.
    assert_eq!(machine.step(at(10), Input::Open("w".into())), []);
    assert!(machine.refused.as_ref().is_some_and(|reason| reason.contains("cool-down: 51 s")));
    assert_eq!(machine.step(at(100), Input::Tick), []);
    machine.step(at(100), Input::Open("nobody".into()));
    assert!(machine.refused.as_ref().is_some_and(|reason| reason.starts_with("nobody: no manual")));
}

#[test]
fn a_request_during_a_triggers_capture_opens_after_it_and_says_how_long_it_waited() {
    let windows = vec![window("jank", jank()), window("hand", Opens::Manual)];
    let (mut machine, _) = machine(windows);
    machine.step(at(20), fired(0, 20));
    assert_eq!(machine.refusal_of_request("hand", at(21)), None);
    assert_eq!(machine.step(at(21), Input::Open("hand".into())), []);
    let actions = machine.step(at(22), Input::Tick);
    assert_eq!((kept(&actions), actions.last()), (vec![0], Some(&record(&[1], false))));
    let State::Open(kept) = &machine.state else { panic!("{:?}", machine.state) };
    assert_eq!(kept.waited, Some(Waited { ms: 1000, window: "jank".into() }));
}

#[test]
fn a_request_that_is_withdrawn_while_it_waits_is_refused_with_the_window_it_waited_for() {
    let windows = vec![window("jank", jank()), window("hand", Opens::Manual)];
    let (mut machine, _) = machine(windows);
    machine.step(at(20), fired(0, 20));
    machine.step(at(21), Input::Open("hand".into()));
    let reason = "hand: nothing was recorded, because it waited 500 ms for window jank";
    let soon = Now { boot_ms: 21_500, ..at(21) };
    assert_eq!(machine.refusal_of_close("hand", soon).as_deref(), Some(reason));
    assert_eq!(machine.refusal_of_close("other", soon), None);
    assert_eq!(machine.refusal_of_close("hand", at(22)), None, "open by then");
    machine.step(soon, Input::Close("hand".into()));
    let actions = machine.step(at(22), Input::Tick);
    assert_eq!((kept(&actions), actions.len()), (vec![0], 2), "{actions:?}");
}

#[test]
fn one_request_waits_at_a_time_and_none_that_the_ledger_refuses() {
    let windows =
        vec![window("a", Opens::Manual), window("b", Opens::Manual), window("c", Opens::Manual)];
    let (mut machine, _) = machine(windows);
    machine.step(at(0), Input::Open("a".into()));
    assert_eq!(machine.refusal_of_request("a", at(1)), None, "it is open");
    assert_eq!(machine.step(at(1), Input::Open("b".into())), []);
    assert_eq!(machine.refusal_of_request("c", at(1)).unwrap(), "c: window b is waiting to open");
    assert_eq!(machine.step(at(2), Input::Close("a".into())).last(), Some(&record(&[1], false)));
    // While b is recorded, a does not wait for the end of its cool-down.
    assert_eq!(machine.refusal_of_request("a", at(3)).unwrap(), "a: cool-down: 57 s more");
    machine.step(at(3), Input::Open("a".into()));
    assert!(machine.asked.is_none());
}

#[test]
fn a_schedule_opens_once_a_period() {
    let schedule = Opens::Schedule(Schedule { every_s: 100, offset_s: 0 });
    let (mut machine, actions) = machine(vec![window("w", schedule)]);
    assert_eq!(actions, [Action::Save, record(&[0], false)]);
    assert_eq!(kept(&machine.step(at(10), Input::Tick)), [0]);
    assert_eq!(machine.step(at(99), Input::Tick), []);
    assert_eq!(machine.step(at(100), Input::Tick), [Action::Save, record(&[0], false)]);
}

#[test]
fn a_trigger_keeps_its_span_when_the_seconds_after_are_over_and_cools_down() {
    let (mut machine, actions) = machine(vec![window("w", jank())]);
    assert_eq!(actions, [record(&[0], true)]);
    assert_eq!(machine.step(at(20), fired(0, 20)), [Action::Save]);
    assert_eq!(machine.step(at(21), fired(0, 21)), []);
    let actions = machine.step(at(22), Input::Tick);
    let [Action::Keep(kept), Action::Stop] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(kept.span_ns, Some((19_999_999_999, 22_000_000_000)));
    assert_eq!((kept.why.as_str(), &kept.also[..]), ("jank", &["jank".to_owned()][..]));
    assert_eq!(machine.state, State::Off("w: cool-down: 58 s more".into()));
    assert_eq!(machine.step(at(80), Input::Tick), [record(&[0], true)]);
}

#[test]
fn the_other_windows_stay_armed_without_losing_what_the_recorder_holds() {
    let (mut machine, _) = machine(vec![window("a", jank()), window("b", section())]);
    machine.step(at(20), fired(0, 20));
    let actions = machine.step(at(22), Input::Tick);
    assert_eq!((kept(&actions), actions.len()), (vec![0], 1));
    assert_eq!(machine.state, State::Armed(vec![1]));
    // The first joins again when it has cooled down, which takes a recorder for both.
    assert_eq!(machine.step(at(80), Input::Tick), [Action::Stop, record(&[0, 1], true)]);
}

#[test]
fn the_section_that_ends_a_window_cuts_it_there() {
    let (mut machine, _) = machine(vec![window("w", section())]);
    machine.step(at(20), fired(0, 20));
    let actions = machine.step(at(21), Input::Ended { window: 0, at_ns: 20_500_000_000 });
    let Action::Keep(kept) = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(kept.span_ns, Some((19_999_999_999, 20_500_000_000)));
}

#[test]
fn a_plain_window_takes_the_recorder_and_gives_it_back() {
    let windows = vec![window("flight", jank()), window("plain", Opens::Manual)];
    let (mut machine, _) = machine(windows);
    let actions = machine.step(at(1), Input::Open("plain".into()));
    assert_eq!(actions, [Action::Stop, Action::Save, record(&[1], false)]);
    assert_eq!(machine.step(at(2), fired(0, 2)), [], "not armed now");
    let actions = machine.step(at(3), Input::Close("plain".into()));
    assert_eq!(actions.last(), Some(&record(&[0], true)));
}

#[test]
fn the_kill_switch_stops_and_keeps_nothing_and_purges_when_told_to() {
    for (purge, expected) in
        [(false, vec![Action::Stop]), (true, vec![Action::Stop, Action::Purge])]
    {
        let (mut machine, _) = machine(vec![window("w", Opens::AppStart)]);
        let killed = Document { kill: Kill { on: true, purge }, ..document(vec![]) };
        assert_eq!(machine.step(at(1), policy(killed)), expected);
        assert_eq!(machine.state, State::Off("the kill switch is on".into()));
        assert_eq!(machine.step(at(2), Input::Open("w".into())), []);
    }
}

#[test]
fn another_configuration_keeps_what_the_old_one_had_open() {
    let (mut machine, _) = machine(vec![window("w", Opens::AppStart)]);
    let actions = machine.step(at(1), policy(document(vec![window("other", jank())])));
    assert_eq!(kept(&actions), [0]);
    assert_eq!(actions.last(), Some(&record(&[0], true)));
}

#[test]
fn a_configuration_that_expires_ends_what_it_had_open() {
    let mut machine = StateMachine::new(Ledger::default());
    let not_after = Some(at(5).real_ms / 1000);
    let document = Document { not_after, ..document(vec![window("w", Opens::AppStart)]) };
    machine.step(at(0), policy(document));
    assert_eq!(machine.step(at(5), Input::Tick), []);
    assert_eq!(machine.step(at(6), Input::Tick), [Action::Stop]);
}

#[test]
fn over_the_budget_of_time_all_windows_pause() {
    let (mut machine, _) = machine(vec![window("w", jank())]);
    assert_eq!(machine.step(at(1), Input::Abort("3 %".into())), [Action::Stop]);
    assert_eq!(machine.state, State::Off("3 %".into()));
    assert_eq!(machine.step(at(600), Input::Tick), []);
    assert_eq!(machine.step(at(601), Input::Tick), [record(&[0], true)]);
    let (mut machine, _) = self::machine(vec![window("w", Opens::AppStart)]);
    assert_eq!(kept(&machine.step(at(1), Input::Abort("3 %".into()))), [0]);
}

#[test]
fn a_recording_that_failed_is_tried_again_later() {
    let (mut machine, _) = machine(vec![window("w", jank())]);
    assert_eq!(machine.step(at(0), Input::Failed("no memory".into())), []);
    assert_eq!(machine.state, State::Off("no memory".into()));
    assert_eq!(machine.step(at(600), Input::Tick), [record(&[0], true)]);
}

#[test]
fn the_exit_keeps_what_is_open() {
    let (mut machine, _) = machine(vec![window("w", Opens::AppStart)]);
    assert_eq!(kept(&machine.step(at(1), Input::Exit)), [0]);
    assert_eq!(machine.step(at(2), Input::Open("w".into())), []);
    let (mut machine, _) = self::machine(vec![window("w", jank())]);
    machine.step(at(20), fired(0, 20));
    let actions = machine.step(at(21), Input::Exit);
    assert_eq!((kept(&actions), actions.last()), (vec![0], Some(&Action::Stop)));
}

#[test]
fn while_another_process_holds_the_ledger_no_capture_begins() {
    let (mut machine, _) = machine(vec![window("w", jank()), window("m", Opens::Manual)]);
    machine.is_ledger_stale = true;
    assert_eq!(machine.step(at(20), fired(0, 20)), []);
    assert!(matches!(machine.state, State::Armed(_)));
    assert_eq!(machine.step(at(21), Input::Open("m".into())), []);
    assert!(machine.refused.as_ref().is_some_and(|reason| reason.contains("holds the ledger")));
    machine.is_ledger_stale = false;
    assert_eq!(machine.step(at(22), fired(0, 22)), [Action::Save]);
}

#[test]
fn a_capture_over_the_bytes_of_the_day_is_discarded() {
    let (mut machine, _) = machine(vec![window("w", Opens::AppStart)]);
    machine.step(at(10), Input::Tick);
    let number = machine.ledger.newest().unwrap().number;
    let bytes = Budget::default().bytes_per_day;
    let actions = machine.step(at(11), Input::Written { number, bytes: bytes + 1 });
    assert_eq!(actions, [Action::Discard(number)]);
    assert_eq!(machine.step(at(11), Input::Written { number, bytes }), [Action::Save]);
}

// ---- random histories ----

/// Event of a device.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64),
    Fire(usize),
    End(usize),
    Open(usize),
    Close(usize),
    Configure(usize),
    OverBudget,
    RecordFails,
    /// The process dies, or forks and the child continues alone, or the device starts over.
    Restart {
        reboot: bool,
    },
    Exit,
    SetClock(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0u64..200_000).prop_map(Event::Wait),
        1 => (3_000_000u64..90_000_000).prop_map(Event::Wait),
        6 => (0usize..6).prop_map(Event::Fire),
        2 => (0usize..6).prop_map(Event::End),
        3 => (0usize..6).prop_map(Event::Open),
        2 => (0usize..6).prop_map(Event::Close),
        2 => (0usize..4).prop_map(Event::Configure),
        1 => Just(Event::OverBudget),
        1 => Just(Event::RecordFails),
        1 => any::<bool>().prop_map(|reboot| Event::Restart { reboot }),
        1 => Just(Event::Exit),
        1 => (-100_000_000i64..100_000_000).prop_map(Event::SetClock),
    ]
}

fn documents() -> [Document; 4] {
    let all = vec![
        window("start", Opens::AppStart),
        window("jank", jank()),
        window("section", section()),
        window("manual", Opens::Manual),
        window("daily", Opens::Schedule(Schedule { every_s: 3600, offset_s: 7 })),
    ];
    let budget = Budget {
        captures_per_hour: 3,
        captures_per_day: 5,
        bytes_per_day: 1000,
        ..Budget::default()
    };
    let base = Document { budget: budget.clone(), ..document(all.clone()) };
    [
        base.clone(),
        Document { kill: Kill { on: true, purge: true }, ..base.clone() },
        Document { budget, ..document(all.into_iter().skip(1).take(2).collect()) },
        Document { not_after: Some(1_000_300), ..base },
    ]
}

/// The environment of the machine: carries out its actions, and checks whether each is allowed.
struct World {
    machine: StateMachine,
    now: Now,
    boot: u32,
    is_recording: bool,
    saved: Ledger,
    next_record_fails: bool,
    /// Boot times of captures entered, and of bytes kept, in the present boot.
    begun_ms: Vec<u64>,
    bytes: Vec<(u64, u64)>,
    bytes_of_next: u64,
    configured: usize,
    /// The window that a request was accepted for, until something is recorded for it.
    promised: Option<String>,
}

impl World {
    fn new() -> Self {
        let now = Now { boot_ms: 1_000_000, real_ms: 1_000_000_000 };
        Self {
            machine: StateMachine::new(Ledger::default().for_boot("0", 1)),
            now,
            boot: 0,
            is_recording: false,
            saved: Ledger::default().for_boot("0", 1),
            next_record_fails: false,
            begun_ms: Vec::new(),
            bytes: Vec::new(),
            bytes_of_next: 0,
            configured: 0,
            promised: None,
        }
    }

    fn step(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for action in self.machine.step(self.now, input) {
                self.act(action, &mut inputs);
            }
        }
        self.look();
    }

    fn act(&mut self, action: Action, inputs: &mut Vec<Input>) {
        match action {
            Action::Save => {
                let newest = |ledger: &Ledger| ledger.newest().map(|entry| entry.number);
                if newest(&self.machine.ledger) != newest(&self.saved) {
                    self.begun_ms.push(self.now.boot_ms);
                }
                self.saved = self.machine.ledger().clone();
            }
            Action::Record { windows, .. } => {
                assert!(!self.is_recording && !windows.is_empty());
                assert_eq!(&self.saved, self.machine.ledger(), "saved before it records");
                if std::mem::take(&mut self.next_record_fails) {
                    self.promised = None;
                    inputs.push(Input::Failed("it does".into()));
                } else {
                    self.is_recording = true;
                }
                if let State::Open(kept) = &self.machine.state {
                    self.promised
                        .take_if(|id| kept.window().is_some_and(|window| window.id == *id));
                }
            }
            Action::Stop => {
                // A failed start is undone by nobody.
                self.is_recording = false;
            }
            Action::Keep(kept) => {
                self.bytes_of_next = (self.bytes_of_next * 7 + 131) % 600;
                let bytes = self.bytes_of_next;
                self.bytes.push((self.now.boot_ms, bytes));
                inputs.push(Input::Written { number: kept.number, bytes });
            }
            Action::Discard(_) => drop(self.bytes.pop()),
            Action::Purge => self.bytes.clear(),
        }
    }

    /// Checks what must hold after every step.
    fn look(&self) {
        let machine = &self.machine;
        let is_on = !matches!(machine.state, State::Off(_));
        assert_eq!(self.is_recording, is_on, "tags are given back: {:?}", machine.state);
        if machine.policy.off_at(self.now).is_some() {
            assert!(!is_on, "{:?}", machine.state);
        }
        if let State::Open(kept) | State::Fired(_, kept) = &machine.state {
            assert!(kept.until_boot_ms > self.now.boot_ms, "left open");
            assert!(kept.until_boot_ms <= self.now.boot_ms + 10_000);
        }
        if let Some(id) = &self.promised
            && machine.policy.off_at(self.now).is_none()
        {
            let waits = machine.asked.as_ref().is_some_and(|asked| asked.id == *id);
            assert!(waits && is_on, "{id} was promised: {machine:?}");
        }
        let budget = machine.policy.budget();
        if self.configured > 0 {
            let within = |ms: u64| {
                let is_in = |&&begun: &&u64| begun + ms > self.now.boot_ms;
                self.begun_ms.iter().filter(is_in).count() as u64
            };
            assert!(within(3_600_000) <= u64::from(budget.captures_per_hour));
            assert!(within(86_400_000) <= u64::from(budget.captures_per_day));
            let recent = self.bytes.iter().filter(|(ms, _)| ms + 86_400_000 > self.now.boot_ms);
            assert!(recent.map(|(_, bytes)| bytes).sum::<u64>() <= budget.bytes_per_day);
        }
    }

    fn happen(&mut self, event: Event) {
        if !matches!(
            event,
            Event::Wait(_) | Event::Fire(_) | Event::End(_) | Event::Open(_) | Event::Close(_)
        ) {
            // Another configuration, a failure or the end of the process may break it.
            self.promised = None;
        }
        let ns = self.now.boot_ms * 1_000_000;
        let id =
            |index: usize| documents()[0].windows.get(index).map_or("x".into(), |w| w.id.clone());
        match event {
            Event::Wait(ms) => {
                self.now.boot_ms += ms;
                self.now.real_ms += ms;
                self.step(Input::Tick);
            }
            Event::Fire(window) => self.step(Input::Fired {
                window,
                why: "it".into(),
                from_ns: ns.saturating_sub(5),
                to_ns: ns + 2_000_000_000,
            }),
            Event::End(window) => self.step(Input::Ended { window, at_ns: ns }),
            Event::Open(index) => {
                let id = id(index);
                let is_open = self.machine.has_open(&id);
                if self.machine.refusal_of_request(&id, self.now).is_none() && !is_open {
                    self.promised = Some(id.clone());
                }
                self.step(Input::Open(id));
            }
            Event::Close(index) => {
                let id = id(index);
                self.promised.take_if(|promised| *promised == id);
                self.step(Input::Close(id));
            }
            Event::Configure(index) => {
                self.configured += 1;
                let policy = Policy::new(documents()[index].clone(), &Device::default());
                self.step(Input::Policy(Arc::new(policy)));
            }
            Event::OverBudget => self.step(Input::Abort("much".into())),
            Event::RecordFails => self.next_record_fails = true,
            Event::Restart { reboot } => {
                self.is_recording = false;
                if reboot {
                    self.boot += 1;
                    self.now.boot_ms = 1_000;
                    // The wall clock tells then; the model looks at one boot at a time.
                    self.begun_ms.clear();
                    self.bytes.clear();
                }
                self.saved = self.saved.clone().for_boot(&self.boot.to_string(), 1);
                self.machine = StateMachine::new(self.saved.clone());
                self.step(Input::Tick);
            }
            Event::Exit => self.step(Input::Exit),
            Event::SetClock(ms) => self.now.real_ms = self.now.real_ms.saturating_add_signed(ms),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn any_events_keep_budgets_give_tags_back_and_close_each_window(
        events in prop::collection::vec(event(), 1..80)
    ) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
    }
}
