//! The words that events and conditions have for what happened, and what each of them means.
//!
//! Every crate that decides has a list of its own, `words`, and what is written is held against it where it
//! is written: a word that nobody explained does not get through the tests. `docs/reference` is made of
//! these lists.

#[cfg(test)]
mod tests;

/// The reason of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The word.
    pub reason: &'static str,
    /// How it is told.
    pub tone: Tone,
    /// The kind of the object that it is about.
    pub about: &'static str,
    /// When it is told.
    pub when: &'static str,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Something went as it should.
    Normal,
    /// Somebody should look.
    Warning,
    /// The one or the other, by what came of it.
    Either,
}

impl Tone {
    /// In a word.
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

/// An event that says that something went as it should.
pub const fn normal(reason: &'static str, about: &'static str, when: &'static str) -> Event {
    Event {
        reason,
        tone: Tone::Normal,
        about,
        when,
    }
}

/// An event that somebody should look at.
pub const fn warning(reason: &'static str, about: &'static str, when: &'static str) -> Event {
    Event {
        reason,
        tone: Tone::Warning,
        about,
        when,
    }
}

/// An event that is the one or the other, by what came of it.
pub const fn either(reason: &'static str, about: &'static str, when: &'static str) -> Event {
    Event {
        reason,
        tone: Tone::Either,
        about,
        when,
    }
}

/// Whether an event is one of these.
pub fn tells(events: &[Event], reason: &str, warning: bool) -> bool {
    events
        .iter()
        .any(|event| event.reason == reason && event.tone.allows(warning))
}

/// Conditions of a kind that give the same reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// The kind that has them.
    pub of: &'static str,
    /// Their types, and what each says if it is true.
    pub types: &'static [(&'static str, &'static str)],
    /// The reasons that they give.
    pub reasons: &'static [&'static [Reason]],
}

/// The reason of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// `True`, `False` or `Unknown`; several are separated by commas.
    pub status: &'static str,
    /// The word; [`ANY`] if it is somebody else's.
    pub word: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What to do about it; nothing if it is empty.
    pub advice: &'static str,
}

/// Stands for words that are passed on from elsewhere.
pub const ANY: &str = "*";

/// A reason.
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

/// A reason that asks for nothing.
pub const fn fine(status: &'static str, word: &'static str, meaning: &'static str) -> Reason {
    reason(status, word, meaning, "")
}

impl Conditions {
    /// All reasons, in order.
    pub fn all(&self) -> impl Iterator<Item = &'static Reason> {
        self.reasons.iter().copied().flatten()
    }
}

/// Whether a condition of this type may say this.
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
