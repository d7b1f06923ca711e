//! Where all images of a pod run, and how labels say it.

use std::collections::{BTreeMap, BTreeSet};

use platform::{Platform, Unfit};
use serde::Serialize;

use crate::cluster::{Cluster, Place, Runtime, judge};
use crate::images::{Knowledge, Used};
use crate::names;
use crate::settings::{RuntimeClass, Settings};

/// What the images of a pod ask of a place, all of them together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demand {
    /// Each image that has something to run, where it is used, and what it is for.
    images: Vec<(Used, Vec<Platform>)>,
}

/// Places that labels can tell from others: all conditions hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct Product {
    /// Every one has to hold.
    pub conditions: Vec<Condition>,
}

/// What a label of a node must be. In JSON it is a `NodeSelectorRequirement`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Condition {
    /// The label.
    pub key: &'static str,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub values: BTreeSet<String>,
}

/// How a label is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Operator {
    /// It is one of them.
    In,
    /// It is none of them, or not there.
    NotIn,
}

impl Condition {
    fn new(key: &'static str, operator: Operator, values: BTreeSet<String>) -> Self {
        Self {
            key,
            operator,
            values,
        }
    }
}

impl Demand {
    /// What is asked by images of which something is known. An image that nobody can look at asks for
    /// the fallback architecture, if there is one, and for nothing if not.
    pub fn new(used: &[Used], known: &BTreeMap<String, Knowledge>, settings: &Settings) -> Self {
        let fallback = settings.fallback_architecture.as_deref();
        let images = used.iter().filter_map(|used| {
            let platforms = match known.get(&used.image)? {
                Knowledge::Platforms(platforms) => platforms.clone(),
                Knowledge::Anywhere => return None,
                Knowledge::Uninspectable(_) => {
                    vec![Platform::new(&settings.operating_system, fallback?)]
                }
            };
            Some((used.clone(), platforms))
        });
        Self {
            images: images.collect(),
        }
    }

    /// Says whether there is nothing that would not run everywhere.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// The images, where they are used, and what they are for.
    pub fn images(&self) -> &[(Used, Vec<Platform>)] {
        &self.images
    }

    /// The images that do not run at a place, and what is wrong with them.
    pub fn misfits(
        &self,
        place: &Place,
        runtime: Runtime,
        class: Option<&RuntimeClass>,
    ) -> Vec<(&Used, Unfit)> {
        let judged = self.images.iter().filter_map(|(used, platforms)| {
            let why = judge(place, runtime, class, platforms).err()?;
            Some((used, why))
        });
        judged.collect()
    }

    fn runs(&self, place: &Place, runtime: Runtime, class: Option<&RuntimeClass>) -> bool {
        self.images
            .iter()
            .all(|(_, platforms)| judge(place, runtime, class, platforms).is_ok())
    }

    /// Says whether all images run on every node of a place.
    pub(crate) fn runs_at(
        &self,
        place: &Place,
        cluster: &Cluster,
        class: Option<&RuntimeClass>,
    ) -> bool {
        let runtimes = cluster.runtimes_of(place);
        if runtimes.is_empty() {
            return self.runs(place, Runtime::default(), class);
        }
        // Labels do not tell runtimes apart, so that a pod cannot ask for one of them.
        runtimes
            .into_iter()
            .all(|runtime| self.runs(place, runtime, class))
    }

    /// Operating systems that images are for.
    pub(crate) fn systems(&self) -> BTreeSet<String> {
        let platforms = self.images.iter().flat_map(|(_, platforms)| platforms);
        platforms
            .map(|platform| platform.normalised().os)
            .filter(|os| !os.is_empty())
            .collect()
    }

    /// Where all images run, of the places of an operating system.
    ///
    /// Of Linux this covers architectures that no node has yet, so that a cluster that grows with its
    /// pods can grow by them. Builds of Windows are those that nodes have, since the label is a text
    /// that cannot be compared.
    pub(crate) fn products(
        &self,
        os: &str,
        cluster: &Cluster,
        class: Option<&RuntimeClass>,
    ) -> Vec<Product> {
        if let Some(platform) = class.and_then(|class| class.platform.as_ref()) {
            // What the node is does not count; where the handler is, the class says itself.
            let place = Place {
                os: platform.os.clone(),
                architecture: platform.architecture.clone(),
                ..Place::default()
            };
            let fits = platform.os == os && self.runs(&place, Runtime::default(), class);
            return if fits {
                vec![Product::default()]
            } else {
                Vec::new()
            };
        }
        let mut places: BTreeMap<String, BTreeMap<Place, bool>> = BTreeMap::new();
        let present = cluster.places().map(|(place, _)| place.clone());
        let possible = self.possible(os);
        for place in present.filter(|place| place.os == os).chain(possible) {
            let fits = self.runs_at(&place, cluster, class);
            places
                .entry(place.architecture.clone())
                .or_default()
                .insert(place, fits);
        }
        let mut shapes: BTreeMap<Vec<Condition>, BTreeSet<String>> = BTreeMap::new();
        for (architecture, places) in places {
            if let Some(rest) = told_apart(&places, self.names_builds()) {
                shapes.entry(rest).or_default().insert(architecture);
            }
        }
        let products = shapes.into_iter().map(|(rest, architectures)| {
            let mut conditions = vec![
                Condition::new(names::ARCHITECTURE, Operator::In, architectures),
                Condition::new(names::OS, Operator::In, BTreeSet::from([os.to_owned()])),
            ];
            conditions.extend(rest);
            Product { conditions }
        });
        products.collect()
    }

    /// Says whether any image was made for a build of Windows.
    fn names_builds(&self) -> bool {
        let mut platforms = self.images.iter().flat_map(|(_, platforms)| platforms);
        platforms.any(|platform| !platform.os_version.is_empty())
    }

    /// Architectures that images name, on nodes that there may be one day.
    fn possible(&self, os: &str) -> Vec<Place> {
        if os == "windows" {
            return Vec::new();
        }
        let platforms = self.images.iter().flat_map(|(_, platforms)| platforms);
        let architectures: BTreeSet<String> = platforms
            .map(Platform::normalised)
            .filter(|platform| platform.os == os || platform.os.is_empty())
            .map(|platform| platform.architecture)
            .filter(|architecture| !architecture.is_empty())
            .collect();
        let places = architectures.into_iter().map(|architecture| Place {
            os: os.to_owned(),
            architecture,
            ..Place::default()
        });
        places.collect()
    }
}

/// What tells the places of an architecture that fit from those that do not, beside the architecture;
/// nothing if none fits.
fn told_apart(places: &BTreeMap<Place, bool>, by_build: bool) -> Option<Vec<Condition>> {
    let by = |wanted: bool, of: fn(&Place) -> &String| -> BTreeSet<String> {
        let places = places.iter().filter(|(_, fits)| **fits == wanted);
        places
            .map(|(place, _)| of(place).clone())
            .filter(|value| !value.is_empty())
            .collect()
    };
    if !places.values().any(|fits| *fits) {
        return None;
    }
    let mut conditions = Vec::new();
    let builds = by(true, |place| &place.build);
    if by_build && !builds.is_empty() {
        conditions.push(Condition::new(names::WINDOWS_BUILD, Operator::In, builds));
    }
    let variants = by(false, |place| &place.variant);
    let plain_fits = places
        .iter()
        .all(|(place, fits)| *fits || !place.variant.is_empty() || !place.build.is_empty());
    if !plain_fits {
        // The plain form does not do: only variants that were seen to.
        let good = by(true, |place| &place.variant);
        if good.is_empty() {
            return None;
        }
        conditions.push(Condition::new(names::VARIANT, Operator::In, good));
    } else if !variants.is_empty() {
        conditions.push(Condition::new(names::VARIANT, Operator::NotIn, variants));
    }
    Some(conditions)
}
