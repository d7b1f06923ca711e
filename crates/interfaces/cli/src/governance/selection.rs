//! Selection of the configurations to plan.

use std::path::{Path, PathBuf};

use ::governance::Registry;
use ::governance::user_patches::list_valid_names;
use anyhow::{Context as _, bail, ensure};
use api::advisor::{Action, ProfileOptions, VirtPlatformConfig, VirtPlatformConfigSpec};
use clap::Args;
use edits::Configs;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::output::remark;
use crate::read;

/// Existing configurations, or a hypothetical one.
#[derive(Debug, Args)]
pub(super) struct SelectionArguments {
    /// Name of the VirtPlatformConfig.
    /// [default: all whose action is not Ignore]
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Also plan configurations whose action is Ignore.
    #[arg(long, conflicts_with_all = ["name", "profile"])]
    all: bool,

    /// Plan this profile as if a configuration selected it, without creating one.
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    profile: Option<String>,

    /// YAML file with the spec.options to plan with; `-` reads standard input.
    #[arg(long, value_name = "FILE", requires = "profile")]
    options: Option<PathBuf>,
}

impl SelectionArguments {
    /// Whether a single configuration is selected.
    pub(super) fn is_single(&self) -> bool {
        self.name.is_some() || self.profile.is_some()
    }

    /// Reads the configurations.
    pub(super) async fn find(
        &self,
        configs: &Configs,
        registry: &Registry,
    ) -> anyhow::Result<Vec<VirtPlatformConfig>> {
        if let Some(name) = &self.name {
            return Ok(vec![configs.get(name).await?]);
        }
        if let Some(profile) = &self.profile {
            return Ok(vec![self.imagined(profile, configs, registry).await?]);
        }
        let mut found = configs.list().await?;
        let there = found.len();
        found.retain(|config| self.all || config.spec.action != Action::Ignore);
        if found.is_empty() {
            remark(&match there {
                0 => "No VirtPlatformConfig found; --profile NAME plans without one.".to_owned(),
                _ => {
                    format!("All {there} VirtPlatformConfigs are ignored; name one, or use --all.")
                }
            });
        }
        Ok(found)
    }

    /// A hypothetical configuration; an existing one of the profile is the starting point.
    async fn imagined(
        &self,
        profile: &str,
        configs: &Configs,
        registry: &Registry,
    ) -> anyhow::Result<VirtPlatformConfig> {
        if registry.get(profile).is_none() {
            let known: Vec<_> = registry.iter().map(|known| known.about().name).collect();
            bail!(
                "there is no profile {profile}; {}",
                list_valid_names(&known)
            );
        }
        let there = configs.try_list().await?.unwrap_or_default();
        let there = there
            .into_iter()
            .find(|config| config.name_any() == profile);
        let mut config = there.unwrap_or_else(|| {
            let spec = VirtPlatformConfigSpec {
                profile: profile.to_owned(),
                ..VirtPlatformConfigSpec::default()
            };
            VirtPlatformConfig::new(profile, spec)
        });
        if let Some(path) = &self.options {
            config.spec.options = Some(options(&read::file(path)?, path)?);
        }
        Ok(config)
    }
}

/// Parses options. An unknown option is an error: serde would drop it silently.
fn options(text: &str, path: &Path) -> anyhow::Result<ProfileOptions> {
    let what = || format!("reading options from {}", path.display());
    let given: Value = serde_saphyr::from_str(text).with_context(what)?;
    let options: ProfileOptions = serde_json::from_value(given.clone()).with_context(what)?;
    // Written back and compared, instead of `deny_unknown_fields` on the API type: the operator
    // must keep accepting options of newer versions.
    let understood = serde_json::to_value(&options).with_context(what)?;
    let mut unknown = Vec::new();
    lost(&given, &understood, "", &mut unknown);
    ensure!(
        unknown.is_empty(),
        "{}: there is no option {}; a file looks like `loadAware: {{mode: Automatic}}`",
        what(),
        unknown.join(", ")
    );
    Ok(options)
}

/// Fields of a value that another one lacks.
fn lost(given: &Value, understood: &Value, at: &str, unknown: &mut Vec<String>) {
    let Some(fields) = given.as_object() else {
        return;
    };
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let at = if at.is_empty() {
            name.clone()
        } else {
            format!("{at}.{name}")
        };
        match understood.get(name) {
            Some(understood) => lost(value, understood, &at, unknown),
            None => unknown.push(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_options_are_refused() {
        let path = Path::new("o.yaml");
        let read = options("loadAware: {mode: Predictive}", path).unwrap();
        assert!(read.load_aware.is_some());
        let error = options("loadAware: {mood: Predictive}\nother: {}", path).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("loadAware.mood, other"), "{message}");
        assert!(options("loadAware: {mode: Sometimes}", path).is_err());
    }
}
