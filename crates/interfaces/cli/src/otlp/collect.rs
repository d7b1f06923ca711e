//! Collects spans when they close.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;
use uuid::Uuid;

/// The field that holds an error.
const ERROR: &str = "error";
/// The field that marks spans of incoming requests: `server`.
const KIND: &str = "otel.kind";

/// A span, complete when it closes.
#[derive(Debug, Clone)]
pub(super) struct Span {
    trace: Uuid,
    id: u64,
    parent: Option<u64>,
    name: &'static str,
    begun: SystemTime,
    ended: SystemTime,
    attributes: Vec<(&'static str, Value)>,
    error: Option<String>,
    is_server: bool,
}

/// Tracing layer that queues Medley's own spans when they close.
pub(crate) struct Collect {
    to: mpsc::Sender<Span>,
}

impl Collect {
    pub(super) fn new(to: mpsc::Sender<Span>) -> Self {
        Self { to }
    }

    /// Whether a span is exported: libraries have many of their own.
    pub(crate) fn wants(metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.target() == runtime::TRACE_TARGET
    }
}

impl<S> Layer<S> for Collect
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let parent = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            let parent = extensions.get::<Span>()?;
            Some((parent.trace, parent.id))
        });
        let now = SystemTime::now();
        let mut begun = Span {
            trace: parent.map_or_else(Uuid::new_v4, |(trace, _)| trace),
            id: Uuid::new_v4().as_u64_pair().0,
            parent: parent.map(|(_, id)| id),
            name: span.name(),
            begun: now,
            ended: now,
            attributes: Vec::new(),
            error: None,
            is_server: false,
        };
        attributes.record(&mut begun);
        span.extensions_mut().insert(begun);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(known) = span.extensions_mut().get_mut::<Span>()
        {
            values.record(known);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let ended = context
            .span(&id)
            .and_then(|span| span.extensions_mut().remove::<Span>());
        if let Some(mut span) = ended {
            span.ended = SystemTime::now();
            // A full queue drops the span: no caller waits for a collector.
            let _ = self.to.try_send(span);
        }
    }
}

impl Span {
    fn note(&mut self, field: &Field, value: Value) {
        match (field.name(), &value) {
            (ERROR, Value::String(text)) => self.error = Some(text.clone()),
            (KIND, Value::String(text)) => self.is_server = text == "server",
            (name, _) => self.attributes.push((name, value)),
        }
    }

    /// OTLP's JSON encoding: identifiers in hexadecimal, 64-bit numbers as text.
    pub(super) fn encoded(&self) -> Value {
        let nanoseconds = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
            since.as_nanos().to_string()
        };
        let attributes: Vec<Value> = self
            .attributes
            .iter()
            .map(|(key, value)| json!({ "key": key, "value": value }))
            .collect();
        let mut span = json!({
            "traceId": self.trace.simple().to_string(),
            "spanId": format!("{:016x}", self.id),
            "name": self.name,
            "kind": if self.is_server { 2 } else { 1 },
            "startTimeUnixNano": nanoseconds(self.begun),
            "endTimeUnixNano": nanoseconds(self.ended),
            "attributes": attributes,
        });
        if let Some(parent) = self.parent {
            span["parentSpanId"] = json!(format!("{parent:016x}"));
        }
        if let Some(error) = &self.error {
            span["status"] = json!({ "code": 2, "message": error });
        }
        span
    }
}

impl Visit for Span {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            ERROR | KIND => self.note(field, json!(value)),
            _ => self.note(field, json!({ "stringValue": value })),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.note(field, json!({ "boolValue": value }));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.note(field, json!({ "intValue": value.to_string() }));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.note(field, json!({ "intValue": value.to_string() }));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.note(field, json!({ "doubleValue": value }));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
