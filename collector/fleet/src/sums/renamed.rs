//! Replaces names in a capture's sums with `(other)`: those beyond the limits of `database/name_limits.rs`.

use super::Sums;
use super::row::{Key, MOST_KEYS};
use super::schema::{DEVICE_ROLLUPS, DeathRollup, DeviceRollup, FrameRollup, ROLLUPS, StackRollup};
use crate::table::symbols::{Code, Symbol};
use std::collections::BTreeSet;

/// Names of a capture, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Replaced {
    /// True if the app's name is replaced.
    pub(crate) app: bool,
    /// True if the version's name is replaced.
    pub(crate) ver: bool,
    /// True if the version's code is left out.
    pub(crate) version_code: bool,
    /// Screens.
    pub(crate) screens: BTreeSet<Symbol>,
    /// Screen, cause and key.
    pub(crate) causes: BTreeSet<[Symbol; 3]>,
    /// Screen and stack.
    pub(crate) stacks: BTreeSet<[Symbol; 2]>,
    /// Reasons of deaths.
    pub(crate) reasons: BTreeSet<Symbol>,
}

impl Replaced {
    /// True if nothing is replaced.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { app, ver, version_code, screens, causes, stacks, reasons } = self;
        let has_names = !(screens.is_empty() && causes.is_empty() && stacks.is_empty());
        let has_names = has_names || !reasons.is_empty();
        !(*app || *ver || *version_code || has_names)
    }
}

impl Sums {
    /// Returns the screens, causes, stacks and reasons of a capture. What is on no screen has no name of one.
    pub(crate) fn names(&self) -> Replaced {
        let mut names = Replaced::default();
        let of_cause = self.symbols.find("cause");
        for row in self.rows::<DeviceRollup<Symbol>>() {
            if Some(row.kind) == of_cause {
                names.causes.insert([row.screen, row.cause, row.cause_key]);
                names.screens.insert(row.screen);
            }
        }
        for row in self.rows::<StackRollup<Symbol>>() {
            names.stacks.insert([row.screen, row.stack]);
            names.screens.insert(row.screen);
        }
        for row in self.rows::<DeathRollup<Symbol>>() {
            names.causes.insert([row.screen, row.cause, row.cause_key]);
            names.screens.insert(row.screen);
            names.reasons.insert(row.reason);
        }
        names.screens.extend(self.rows::<FrameRollup<Symbol>>().map(|row| row.screen));
        names.screens.remove(&Symbol::EMPTY);
        names
    }

    /// Returns the text of a number.
    pub(crate) fn text(&self, symbol: Symbol) -> &str {
        self.symbols.text_ref(symbol)
    }

    /// Returns a capture's sums with names replaced. The capture still counts once; of causes that become one, a frame may count twice.
    pub(crate) fn renamed(&self, replaced: &Replaced, other: &'static str) -> Self {
        let mut made = Self { symbols: self.symbols.clone(), ..Self::default() };
        let other = made.symbols.intern_static(other).code();
        let stack = self.symbols.find("stack");
        for (&name, rows) in &self.tables {
            let Some(rollup) = ROLLUPS.iter().find(|rollup| rollup.table.name == name) else {
                continue;
            };
            let index_of = |column| {
                let index = rollup.table.index_of(column).filter(|&index| index < rollup.keys);
                index.unwrap_or(MOST_KEYS)
            };
            let [app, ver, code, screen, kind] =
                ["app", "ver", "version_code", "screen", "kind"].map(index_of);
            let [cause, cause_key, own_stack, reason] =
                ["cause", "cause_key", "stack", "reason"].map(index_of);
            let is_of_devices = name == DEVICE_ROLLUPS.table.name;
            let table = made.tables.entry(name).or_default();
            for (key, added) in rows {
                let symbol = |index: usize| key.get(index).map(|&code| Symbol::from_code(code));
                let is_stack = is_of_devices && symbol(kind) == stack;
                let stack = if is_stack { cause_key } else { own_stack };
                let mut new = *key;
                let mut set = |is_replaced: bool, index: usize, code: u64| {
                    if let Some(old) = new.get_mut(index).filter(|_| is_replaced) {
                        *old = code;
                    }
                };
                let on = symbol(screen).unwrap_or(Symbol::EMPTY);
                set(replaced.app, app, other);
                set(replaced.ver && symbol(ver) != Some(Symbol::EMPTY), ver, other);
                set(replaced.version_code, code, (-1_i64).code());
                set(replaced.screens.contains(&on), screen, other);
                let is_reason = |named| replaced.reasons.contains(&named);
                set(symbol(reason).is_some_and(is_reason), reason, other);
                if let Some(named) = symbol(stack) {
                    set(replaced.stacks.contains(&[on, named]), stack, other);
                } else if let (Some(cause), Some(named)) = (symbol(cause), symbol(cause_key)) {
                    set(replaced.causes.contains(&[on, cause, named]), cause_key, other);
                }
                let sums = table.entry(new).or_default();
                for (index, (sum, added)) in sums.iter_mut().zip(added).enumerate() {
                    // Captures, of devices: there is one.
                    *sum =
                        if is_of_devices && index < 2 { (*sum).max(*added) } else { *sum + added };
                }
            }
        }
        made.count_once();
        made
    }

    /// Leaves of each cause and stack one row that counts the capture on all its screens.
    fn count_once(&mut self) {
        let Some(table) = self.tables.get_mut(DEVICE_ROLLUPS.table.name) else { return };
        let index_of = |column| DEVICE_ROLLUPS.table.index_of(column).unwrap_or(MOST_KEYS);
        let columns = ["kind", "cause", "cause_key"].map(index_of);
        let mut counted = BTreeSet::new();
        let mut keys: Vec<Key> = table.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let Some([_, once, ..]) = table.get_mut(&key) else { continue };
            let group = columns.map(|index| key.get(index).copied());
            if *once > 0 && !counted.insert(group) {
                *once = 0;
            }
        }
    }
}
