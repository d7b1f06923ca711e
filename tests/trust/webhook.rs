//! The webhook server: forged reviews, exhausted connections, honest readiness.
