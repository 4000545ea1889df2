//! A layer for Rust's `tracing`: spans become sections, events instants, fields arguments.
//!
//! A span is a section from each enter to its exit: of a future that `Instrument` wraps, one for each poll, on the thread of the poll,
//! and a flow leads from one to the next. Spans of a thread that are left in another order than they were
//! entered are ended and begun again, so that sections nest. Called on the app's threads, by `tracing`; while nothing is
//! recorded, fields are not looked at.

use crate::event::{ArgValue, Event, Flow};
use crate::section::{end_recorded, is_recording};
use std::cell::RefCell;
use std::fmt::{self, Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event as TracingEvent, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// Bytes of a text that are kept: as many as an argument has.
const MAX_TEXT_BYTES: usize = 500;

/// Ids of flows; they differ from the low numbers that a program may use itself.
static NEXT_FLOW: AtomicU64 = AtomicU64::new(1 << 63);

thread_local! {
    /// The spans that this thread has entered, the outermost first, and whether their begins are in the capture.
    static ENTERED: RefCell<Vec<(Id, bool)>> = const { RefCell::new(Vec::new()) };
}

/// Records `tracing`'s spans and events.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt;
/// let subscriber = tracing_subscriber::registry().with(tracetee::TracingLayer::new());
/// ```
#[derive(Debug, Default)]
pub struct TracingLayer(());

impl TracingLayer {
    /// Makes the layer. It records while a capture does.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

/// State of a span, kept in the span's extensions.
#[derive(Debug)]
struct Known {
    fields: Fields,
    /// The flow through its sections.
    flow: u64,
    was_entered: bool,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id).filter(|_| is_recording()) {
            with_known(&span, |known| attributes.record(&mut known.fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id).filter(|_| is_recording()) {
            with_known(&span, |known| values.record(&mut known.fields));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let was_recorded = is_recording() && context.span(id).is_some_and(|span| begin(&span));
        // A thread that is ending has none.
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().push((id.clone(), was_recorded)));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let inner = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            let at = entered.iter().rposition(|(span, _)| span == id)?;
            Some(entered.split_off(at))
        });
        let Some(left) = inner.ok().flatten() else { return };
        left.iter().rev().for_each(|&(_, was_recorded)| end_recorded(was_recorded));
        for (id, _) in left.into_iter().skip(1) {
            self.on_enter(&id, context.clone());
        }
    }

    fn on_event(&self, event: &TracingEvent<'_>, _: Context<'_, S>) {
        if !is_recording() {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        let message = fields.0.iter().position(|(name, _)| *name == "message");
        let message = message.map(|at| fields.0.remove(at).1);
        let name = match &message {
            Some(Owned::Text(text)) => text,
            _ => metadata.name(),
        };
        let mut args = fields.args();
        args.push(("level", metadata.level().as_str().into()));
        Event::new(name).category(metadata.target()).args(&args).instant();
    }
}

/// Calls `call` with the state of the span, which may be new.
fn with_known<T, S: for<'a> LookupSpan<'a>>(
    span: &SpanRef<'_, S>,
    call: impl FnOnce(&mut Known) -> T,
) -> T {
    let mut extensions = span.extensions_mut();
    if extensions.get_mut::<Known>().is_none() {
        // ORDERING: Relaxed; only a unique number.
        let flow = NEXT_FLOW.fetch_add(1, Ordering::Relaxed);
        extensions.insert(Known { fields: Fields::default(), flow, was_entered: false });
    }
    match extensions.get_mut() {
        Some(known) => call(known),
        None => call(&mut Known { fields: Fields::default(), flow: 0, was_entered: false }),
    }
}

/// Begins a section of the span; returns true if it is in the capture.
fn begin<S: for<'a> LookupSpan<'a>>(span: &SpanRef<'_, S>) -> bool {
    let metadata = span.metadata();
    with_known(span, |known| {
        let was_entered = std::mem::replace(&mut known.was_entered, true);
        let point = if was_entered { Flow::step } else { Flow::begin };
        let (args, flows) = (known.fields.args(), [point(known.flow)]);
        let event = Event::new(metadata.name()).category(metadata.target());
        event.args(&args).flows(&flows).begin_recorded()
    })
}

/// A value of a field.
#[derive(Debug)]
enum Owned {
    Text(String),
    Int(i64),
    Real(f64),
    Bool(bool),
}

/// Fields by name.
#[derive(Debug, Default)]
struct Fields(Vec<(&'static str, Owned)>);

impl Fields {
    fn put(&mut self, field: &Field, value: Owned) {
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some((_, before)) => *before = value,
            None => self.0.push((field.name(), value)),
        }
    }

    fn args(&self) -> Vec<(&str, ArgValue<'_>)> {
        let args = self.0.iter().map(|(name, value)| {
            let value = match value {
                Owned::Text(text) => ArgValue::Text(text),
                Owned::Int(number) => ArgValue::Int(*number),
                Owned::Real(number) => ArgValue::Real(*number),
                Owned::Bool(is) => ArgValue::Bool(*is),
            };
            (*name, value)
        });
        args.collect()
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Owned::Real(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Owned::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.put(field, Owned::Int(value)),
            Err(_) => self.record_debug(field, &value),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Owned::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let end = value.floor_char_boundary(MAX_TEXT_BYTES);
        self.put(field, Owned::Text(value.get(..end).unwrap_or_default().to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = Bounded(String::new());
        // An error is the text's end.
        let _ = write!(text, "{}", Shown(value));
        self.put(field, Owned::Text(text.0));
    }
}

/// A value in its type's debug format. Does not use a format string, which is empty in a library for apps.
struct Shown<'a>(&'a dyn Debug);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(self.0, f)
    }
}

/// A string truncated to the size of an argument.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_TEXT_BYTES.saturating_sub(self.0.len());
        let end = text.floor_char_boundary(room);
        self.0.push_str(text.get(..end).unwrap_or_default());
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}
