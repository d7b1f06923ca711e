//! The reasons of events and conditions, with their documentation.
//!
//! Every crate that decides has a list of its own, and each event and condition is checked against it
//! when it is written: an undocumented reason fails the tests. `docs/reference` is generated from these
//! lists.

#[cfg(test)]
mod tests;

/// The reason of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The reason.
    pub reason: &'static str,
    /// The event type.
    pub tone: Tone,
    /// The kind of the involved object.
    pub about: &'static str,
    /// When it is emitted.
    pub when: &'static str,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
    /// `Normal` or `Warning`, depending on the outcome.
    Either,
}

impl Tone {
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

/// A `Normal` event.
pub const fn normal(reason: &'static str, about: &'static str, when: &'static str) -> Event {
    Event {
        reason,
        tone: Tone::Normal,
        about,
        when,
    }
}

/// A `Warning` event.
pub const fn warning(reason: &'static str, about: &'static str, when: &'static str) -> Event {
    Event {
        reason,
        tone: Tone::Warning,
        about,
        when,
    }
}

/// An event whose type depends on the outcome.
pub const fn either(reason: &'static str, about: &'static str, when: &'static str) -> Event {
    Event {
        reason,
        tone: Tone::Either,
        about,
        when,
    }
}

/// Whether an event is among these.
pub fn tells(events: &[Event], reason: &str, warning: bool) -> bool {
    events
        .iter()
        .any(|event| event.reason == reason && event.tone.allows(warning))
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
    pub word: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// The advice for users; empty if nothing is to be done.
    pub advice: &'static str,
}

/// Stands for reasons copied from other objects.
pub const ANY: &str = "*";

/// A reason with advice.
pub const fn reason(
    status: &'static str,
    word: &'static str,
    meaning: &'static str,
    advice: &'static str,
) -> Reason {
    Reason {
        status,
        word,
        meaning,
        advice,
    }
}

/// A reason without advice.
pub const fn fine(status: &'static str, word: &'static str, meaning: &'static str) -> Reason {
    reason(status, word, meaning, "")
}

impl Conditions {
    /// All reasons, in order.
    pub fn all(&self) -> impl Iterator<Item = &'static Reason> {
        self.reasons.iter().copied().flatten()
    }
}

/// Whether a condition of this type may have this status and reason.
pub fn says(conditions: &[Conditions], kind: &str, status: &str, word: &str) -> bool {
    conditions
        .iter()
        .filter(|group| group.types.iter().any(|(name, _)| *name == kind))
        .flat_map(Conditions::all)
        .any(|reason| {
            let mut statuses = reason.status.split(", ");
            (reason.word == word || reason.word == ANY) && statuses.any(|one| one == status)
        })
}
