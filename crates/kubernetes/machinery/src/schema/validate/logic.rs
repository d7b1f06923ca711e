//! Schemas made of other schemas. They only restrict, and of several that fail one is reported.

use serde_json::Value;

use super::{At, Checker, Outcome};
use crate::json::go_quote;
use crate::schema::types::Schema;

impl Checker<'_> {
    /// `anyOf`, `oneOf`, `allOf` and `not`; nothing below them is ratcheted.
    pub(super) fn combinations(&self, schema: &Schema, value: &Value, at: &At<'_>) -> Outcome {
        let mut out = Outcome::default();
        let run = |schema: &Schema| self.node(schema, value, at, None);
        if !schema.any_of.is_empty() {
            let mut best: Option<Outcome> = None;
            for alternative in &schema.any_of {
                let outcome = run(alternative);
                if outcome.is_valid() {
                    best = Some(outcome);
                    break;
                }
                if best
                    .as_ref()
                    .is_none_or(|best| outcome.matches > best.matches)
                {
                    best = Some(outcome);
                }
            }
            if best.as_ref().is_some_and(|best| !best.is_valid()) {
                let path = go_quote(&at.text());
                out.errors
                    .push(self.plain(format!("{path} must validate at least one schema (anyOf)")));
            }
            out.merge(best.unwrap_or_default());
        }
        if !schema.one_of.is_empty() {
            let mut valid = Vec::new();
            let mut best: Option<Outcome> = None;
            for alternative in &schema.one_of {
                let outcome = run(alternative);
                if outcome.is_valid() {
                    valid.push(outcome);
                } else if best
                    .as_ref()
                    .is_none_or(|best| outcome.matches > best.matches)
                {
                    best = Some(outcome);
                }
            }
            let count = valid.len();
            if count == 1 {
                out.merge(valid.pop().unwrap_or_default());
            } else {
                let found = match count {
                    0 => "Found none valid".to_owned(),
                    n => format!("Found {n} valid alternatives"),
                };
                let path = go_quote(&at.text());
                out.errors.push(self.plain(format!(
                    "{path} must validate one and only one schema (oneOf). {found}"
                )));
                if count == 0 {
                    out.merge(best.unwrap_or_default());
                }
            }
        }
        if !schema.all_of.is_empty() {
            let mut valid = 0;
            for part in &schema.all_of {
                let outcome = run(part);
                valid += usize::from(outcome.is_valid());
                out.merge(outcome);
            }
            if valid != schema.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                let path = go_quote(&at.text());
                out.errors.push(self.plain(format!(
                    "{path} must validate all the schemas (allOf){none}"
                )));
            }
        }
        if schema.not.as_deref().is_some_and(|not| run(not).is_valid()) {
            let path = go_quote(&at.text());
            out.errors
                .push(self.plain(format!("{path} must not validate the schema (not)")));
        }
        out.matches += 1;
        out
    }
}
