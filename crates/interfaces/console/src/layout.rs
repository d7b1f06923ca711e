//! The layout around every page.

use askama::Template;
use axum::response::{Html, IntoResponse as _, Response};

use crate::assets;
use crate::error::Problem;
use crate::pages::{PAGES, Page};

/// Light, dark, or the system setting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    /// The system setting.
    #[default]
    Auto,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Theme {
    /// Cookie of the theme.
    pub(crate) const COOKIE: &str = "medley-theme";

    /// The theme of a name; [`Self::Auto`] for any other.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::Auto,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// All themes, with their labels in the menu.
    pub(crate) fn all() -> [(&'static str, &'static str); 3] {
        [("auto", "System"), ("light", "Light"), ("dark", "Dark")]
    }
}

/// Data of the layout.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// Title of the page.
    pub(crate) title: String,
    /// The signed-in user.
    pub(crate) user: Option<String>,
    /// CSRF token of the forms.
    pub(crate) csrf: String,
    /// Message about the last action, shown once.
    pub(crate) notice: Option<String>,
    /// Path of the navigation entry that this page belongs to.
    pub(crate) section: &'static str,
    /// The path and query.
    pub(crate) here: String,
    /// The theme.
    pub(crate) theme: Theme,
    /// The version of the program.
    pub(crate) version: String,
    /// Path prefix of the assets.
    pub(crate) assets: String,
}

impl Layout {
    /// The layout without a signed-in user.
    pub(crate) fn bare(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            assets: assets::folder(),
            here: "/".to_owned(),
            ..Self::default()
        }
    }

    /// The navigation.
    #[expect(clippy::unused_self, reason = "templates call it on what they have")]
    pub(crate) fn pages(&self) -> &'static [Page] {
        PAGES
    }
}

impl Page {
    /// Renders a template.
    pub(crate) fn html(template: &impl Template) -> Result<Response, Problem> {
        match template.render() {
            Ok(html) => Ok(Html(html).into_response()),
            Err(error) => Err(Problem::broken(format!(
                "The page cannot be rendered: {error}"
            ))),
        }
    }
}
