//! What standard output is: how wide, and whether colours are wanted there.

use std::borrow::Cow;
use std::io::IsTerminal as _;

use clap::ValueEnum;

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR or TERM=dumb say otherwise.
    #[default]
    Auto,
    /// Wherever the output goes.
    Always,
    /// Nowhere.
    Never,
}

/// What a piece of text means to whoever looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Heading,
    Good,
    Busy,
    Bad,
    Faint,
    Added,
    Removed,
    Position,
}

impl Colour {
    /// Whether standard output gets colours (<https://no-color.org>).
    pub(crate) fn is_on(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let plain = std::env::var_os("NO_COLOR").is_some_and(|said| !said.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|said| said == "dumb");
                !plain && !dumb && std::io::stdout().is_terminal()
            }
        }
    }
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Heading => "1",
            Self::Good | Self::Added => "32",
            Self::Busy => "33",
            Self::Bad | Self::Removed => "31",
            Self::Faint => "2",
            Self::Position => "36",
        }
    }

    /// A text in this tone, if there are colours.
    pub(crate) fn paint(self, text: &str, colours: bool) -> Cow<'_, str> {
        if colours && !text.is_empty() {
            Cow::Owned(format!("\u{1b}[{}m{text}\u{1b}[0m", self.code()))
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// How many columns standard output has; as many as it takes, if it is no terminal. COLUMNS counts first, as
/// it does for ps and man.
pub(crate) fn width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok();
    if let Some(told) = told.and_then(|told| told.parse().ok()).filter(|it| *it > 0) {
        return Some(told);
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// The beginning of a text that has no room.
pub(crate) fn cut(text: &str, room: usize) -> Cow<'_, str> {
    if text.chars().nth(room).is_none() {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(room.saturating_sub(1));
    Cow::Owned(kept.chain(['…']).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_room_says_so() {
        for (text, room, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("äöü", 3, "äöü"),
            ("abc", 1, "…"),
        ] {
            assert_eq!(cut(text, room), expected);
        }
    }

    #[test]
    fn colours_are_only_there_when_they_are_wanted() {
        assert_eq!(Tone::Bad.paint("x", true), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Tone::Bad.paint("x", false), "x");
        assert_eq!(Tone::Bad.paint("", true), "");
        assert!(Colour::Always.is_on());
        assert!(!Colour::Never.is_on());
    }
}
