//! The reasons of events and conditions, with their documentation.
//!
//! Every crate that decides has tables of its own, and each event and condition is checked against them
//! when it is written: an undocumented reason fails the tests. `docs/reference` is generated from these
//! tables.

#[cfg(test)]
mod tests;

/// The reason of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The reason.
    pub reason: &'static str,
    /// The event type.
    pub event_type: EventType,
    /// The kind of the involved object.
    pub about: &'static str,
    /// When it is emitted.
    pub when: &'static str,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
    /// `Normal` or `Warning`, depending on the outcome.
    Either,
}

impl EventType {
    /// The type as shown in the documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
            Self::Either => "Normal or Warning",
        }
    }

    fn allows(self, warning: bool) -> bool {
        match self {
            Self::Normal => !warning,
            Self::Warning => warning,
            Self::Either => true,
        }
    }
}

/// Condition types of a kind that share reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// The kind that has them.
    pub of: &'static str,
    /// The condition types, each with its meaning if true.
    pub types: &'static [(&'static str, &'static str)],
    /// The reasons they may have.
    pub reasons: &'static [&'static [Reason]],
}

/// The reason of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// `True`, `False` or `Unknown`; several are separated by commas.
    pub status: &'static str,
    /// The reason; [`ANY`] if it is copied from another object.
    pub name: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// The advice for users; empty if nothing is to be done.
    pub advice: &'static str,
}

/// Stands for reasons copied from other objects.
pub const ANY: &str = "*";

/// A table of [`Event`]s: `TYPE REASON KIND => WHEN;`.
#[macro_export]
macro_rules! events {
    ($($event_type:ident $reason:tt $about:expr => $when:literal;)*) => {
        &[$($crate::reasons::Event {
            reason: $reason,
            event_type: $crate::reasons::EventType::$event_type,
            about: $about,
            when: $when,
        }),*]
    };
}

/// A table of condition [`Reason`]s: `STATUS REASON: MEANING => ADVICE;`, without the arrow if nothing is to be done.
#[macro_export]
macro_rules! condition_reasons {
    ($($status:literal $name:tt: $meaning:literal $(=> $advice:literal)?;)*) => {
        &[$($crate::reasons::Reason {
            status: $status,
            name: $name,
            meaning: $meaning,
            // Empty without advice.
            advice: concat!($($advice)?),
        }),*]
    };
}

/// A table of [`Conditions`]: `of KIND, TYPE: MEANING, ... with [SHARED, ...] { REASONS }`. The reasons are rows of
/// [`condition_reasons`], in addition to the shared tables.
#[macro_export]
macro_rules! conditions {
    ($(of $of:expr, $($kind:literal: $meaning:literal),+ $(with [$($shared:ident),+])? { $($rows:tt)* })*) => {
        &[$($crate::reasons::Conditions {
            of: $of,
            types: &[$(($kind, $meaning)),+],
            reasons: &[$($($shared,)+)? $crate::condition_reasons! { $($rows)* }],
        }),*]
    };
}

impl Conditions {
    /// All reasons, in order.
    pub fn all(&self) -> impl Iterator<Item = &'static Reason> {
        self.reasons.iter().copied().flatten()
    }
}

/// Whether an event is documented.
pub fn has_event(events: &[Event], reason: &str, warning: bool) -> bool {
    events
        .iter()
        .any(|event| event.reason == reason && event.event_type.allows(warning))
}

/// Whether it is documented that a condition of this type may have this status and reason.
pub fn has_condition(conditions: &[Conditions], kind: &str, status: &str, reason: &str) -> bool {
    conditions
        .iter()
        .filter(|group| group.types.iter().any(|(name, _)| *name == kind))
        .flat_map(Conditions::all)
        .any(|it| {
            let mut statuses = it.status.split(", ");
            (it.name == reason || it.name == ANY) && statuses.any(|one| one == status)
        })
}
