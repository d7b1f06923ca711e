//! Standard output: its width, and whether to use colours.

use std::borrow::Cow;
use std::io::IsTerminal as _;

use clap::ValueEnum;

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// Use colours on a terminal, unless NO_COLOR or TERM=dumb is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Meaning of a piece of text, which decides its colour.
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
                let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
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

    /// The text in the colour of this tone, if colours are on.
    pub(crate) fn paint(self, text: &str, colours: bool) -> Cow<'_, str> {
        if colours && !text.is_empty() {
            Cow::Owned(format!("\u{1b}[{}m{text}\u{1b}[0m", self.code()))
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// Width of standard output; `None` if it is not a terminal. COLUMNS takes precedence, as in ps and
/// man.
pub(crate) fn width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok();
    if let Some(columns) = columns
        .and_then(|columns| columns.parse().ok())
        .filter(|it| *it > 0)
    {
        return Some(columns);
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// The text, truncated to this many columns.
pub(crate) fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().nth(width).is_none() {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(width.saturating_sub(1));
    Cow::Owned(kept.chain(['…']).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_text_ends_with_an_ellipsis() {
        for (text, width, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("äöü", 3, "äöü"),
            ("abc", 1, "…"),
        ] {
            assert_eq!(cut(text, width), expected);
        }
    }

    #[test]
    fn colours_are_used_only_when_on() {
        assert_eq!(Tone::Bad.paint("x", true), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Tone::Bad.paint("x", false), "x");
        assert_eq!(Tone::Bad.paint("", true), "");
        assert!(Colour::Always.is_on());
        assert!(!Colour::Never.is_on());
    }
}
