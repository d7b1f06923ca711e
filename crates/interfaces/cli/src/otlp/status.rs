//! The status of spans.

use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::trace::Status;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

/// The field that holds an error.
const ERROR: &str = "error";

/// Makes the field `error` of a span its status: log lines show that field, collectors the status.
#[derive(Debug)]
pub(super) struct ErrorStatus<P> {
    next: P,
}

impl<P> ErrorStatus<P> {
    pub(super) fn new(next: P) -> Self {
        Self { next }
    }
}

impl<P: SpanProcessor> SpanProcessor for ErrorStatus<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.next.on_start(span, context);
    }

    fn on_end(&self, mut span: SpanData) {
        let field = span
            .attributes
            .iter()
            .position(|it| it.key.as_str() == ERROR);
        if let Some(field) = field {
            let error = span.attributes.remove(field);
            span.status = Status::error(error.value.as_str().into_owned());
        }
        self.next.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}
