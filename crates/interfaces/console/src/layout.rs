//! What is around every page.

use askama::Template;
use axum::response::{Html, IntoResponse as _, Response};

use crate::assets;
use crate::error::Problem;
use crate::pages::{PAGES, Page};

/// Light, dark, or as the system has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    /// As the system has it.
    #[default]
    Auto,
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

impl Theme {
    /// Where it is remembered.
    pub(crate) const COOKIE: &str = "medley-theme";

    /// By its name; what is no name changes nothing.
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

    /// All of them, with what they are called in the menu.
    pub(crate) fn all() -> [(&'static str, &'static str); 3] {
        [("auto", "System"), ("light", "Light"), ("dark", "Dark")]
    }
}

/// What is around a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Layout {
    /// What the page is called.
    pub(crate) title: String,
    /// Who is signed in.
    pub(crate) user: Option<String>,
    /// What forms carry.
    pub(crate) csrf: String,
    /// What was done, said once.
    pub(crate) told: Option<String>,
    /// The path of the page of the navigation that this belongs to.
    pub(crate) section: &'static str,
    /// The path and query.
    pub(crate) here: String,
    /// The colours.
    pub(crate) theme: Theme,
    /// The version of the program.
    pub(crate) version: String,
    /// Where the assets are.
    pub(crate) assets: String,
}

impl Layout {
    /// What is around a page for nobody in particular.
    pub(crate) fn bare(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            assets: assets::folder(),
            here: "/".to_owned(),
            ..Self::default()
        }
    }

    /// The pages of the navigation.
    #[expect(clippy::unused_self, reason = "templates call it on what they have")]
    pub(crate) fn pages(&self) -> &'static [Page] {
        PAGES
    }
}

impl Page {
    /// A rendered template.
    pub(crate) fn html(template: &impl Template) -> Result<Response, Problem> {
        match template.render() {
            Ok(html) => Ok(Html(html).into_response()),
            Err(error) => Err(Problem::broken(format!(
                "The page cannot be rendered: {error}"
            ))),
        }
    }
}
