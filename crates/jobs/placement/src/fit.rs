//! Where all images of a pod run, and how labels say it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use platform::{Meant, Platform, Unfit};
use serde::Serialize;

use crate::cluster::{Cluster, Judge, Place, Runtime};
use crate::images::{Knowledge, Platforms, Used};
use crate::names;
use crate::settings::{RuntimeClass, Settings};

/// What the images of a pod ask of a place, all of them together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Demand {
    /// Each image that has something to run, where it is used, and what it is for.
    images: Vec<(Used, Platforms)>,
}

/// Where all images of a pod run, of the places of an operating system.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Fit {
    /// How labels say it; nothing if they run nowhere.
    pub(crate) products: Vec<Product>,
    /// Where there are nodes that run them.
    pub(crate) places: Vec<Place>,
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
                    let only = Platform::new(&settings.operating_system, fallback?);
                    Platforms::from_iter([only])
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
    pub fn images(&self) -> &[(Used, Platforms)] {
        &self.images
    }

    /// The images that do not run at a place, and what is wrong with them.
    pub fn misfits(
        &self,
        place: &Place,
        runtime: Runtime,
        class: Option<&RuntimeClass>,
    ) -> Vec<(&Used, Unfit)> {
        let judge = Judge::new(place, runtime, class);
        let judged = self.images.iter().filter_map(|(used, platforms)| {
            let why = judge.rank(platforms).err()?;
            Some((used, why))
        });
        judged.collect()
    }

    fn runs(&self, place: &Place, runtime: Runtime, class: Option<&RuntimeClass>) -> bool {
        let judge = Judge::new(place, runtime, class);
        let mut images = self.images.iter();
        images.all(|(_, platforms)| judge.rank(platforms).is_ok())
    }

    /// What images are for, each as it is meant.
    fn meant(&self) -> impl Iterator<Item = &Platform> {
        let platforms = self.images.iter().flat_map(|(_, it)| it.meant());
        platforms.map(Meant::platform)
    }

    /// Says whether all images run on every node of a place that has some.
    fn runs_at(&self, place: &Place, cluster: &Cluster, class: Option<&RuntimeClass>) -> bool {
        // Labels do not tell runtimes apart, so that a pod cannot ask for one of them.
        let mut runtimes = cluster.runtimes_of(place).into_iter();
        runtimes.all(|runtime| self.runs(place, runtime, class))
    }

    /// Operating systems that images are for.
    pub(crate) fn systems(&self) -> BTreeSet<String> {
        let systems = self.meant().map(|platform| &platform.os);
        systems.filter(|os| !os.is_empty()).cloned().collect()
    }

    /// Where all images run, of the places of an operating system.
    pub(crate) fn fit(
        &self,
        os: &str,
        cluster: &Cluster,
        class: Option<&RuntimeClass>,
    ) -> Arc<Fit> {
        if class.is_some() {
            return Arc::new(self.find(os, cluster, class));
        }
        let platforms = self.images.iter().map(|(_, platforms)| platforms.clone());
        let asked = (platforms.collect(), os.to_owned());
        let memory = cluster.memory();
        memory.recall(asked, || self.find(os, cluster, None))
    }

    /// The same, found.
    ///
    /// Of Linux this covers architectures that no node has yet, so that a cluster that grows with its
    /// pods can grow by them. Builds of Windows are those that nodes have, since the label is a text
    /// that cannot be compared.
    fn find(&self, os: &str, cluster: &Cluster, class: Option<&RuntimeClass>) -> Fit {
        if let Some(platform) = class.and_then(|class| class.platform.as_ref()) {
            // What the node is does not count; where the handler is, the class says itself.
            let place = Place {
                os: platform.os.clone(),
                architecture: platform.architecture.clone(),
                ..Place::default()
            };
            let fits = platform.os == os && self.runs(&place, Runtime::default(), class);
            if !fits {
                return Fit::default();
            }
            let everywhere = cluster.places().map(|(place, _)| place.clone());
            return Fit {
                products: vec![Product::default()],
                places: everywhere.collect(),
            };
        }
        let present = cluster.places().map(|(place, _)| place);
        let present: Vec<&Place> = present.filter(|place| place.os == os).collect();
        let mut fitting = present.clone();
        fitting.retain(|place| self.runs_at(place, cluster, class));
        let mut places: BTreeMap<&str, BTreeMap<&Place, bool>> = BTreeMap::new();
        for place in &present {
            let fits = fitting.contains(place);
            let alike = places.entry(&place.architecture).or_default();
            alike.insert(place, fits);
        }
        let possible = self.possible(os);
        for place in possible.iter().filter(|place| !present.contains(place)) {
            let fits = self.runs(place, Runtime::default(), class);
            let alike = places.entry(&place.architecture).or_default();
            alike.insert(place, fits);
        }
        let mut shapes: BTreeMap<Vec<Condition>, BTreeSet<String>> = BTreeMap::new();
        for (architecture, places) in places {
            if let Some(rest) = told_apart(&places, self.names_builds()) {
                let alike = shapes.entry(rest).or_default();
                alike.insert(architecture.to_owned());
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
        Fit {
            products: products.collect(),
            places: fitting.into_iter().cloned().collect(),
        }
    }

    /// Says whether any image was made for a build of Windows.
    fn names_builds(&self) -> bool {
        self.meant().any(|platform| !platform.os_version.is_empty())
    }

    /// Architectures that images name, on nodes that there may be one day.
    fn possible(&self, os: &str) -> Vec<Place> {
        if os == "windows" {
            return Vec::new();
        }
        let architectures: BTreeSet<&String> = self
            .meant()
            .filter(|platform| platform.os == os || platform.os.is_empty())
            .map(|platform| &platform.architecture)
            .filter(|architecture| !architecture.is_empty())
            .collect();
        let places = architectures.into_iter().map(|architecture| Place {
            os: os.to_owned(),
            architecture: architecture.clone(),
            ..Place::default()
        });
        places.collect()
    }
}

/// What tells the places of an architecture that fit from those that do not, beside the architecture;
/// nothing if none fits.
fn told_apart(places: &BTreeMap<&Place, bool>, by_build: bool) -> Option<Vec<Condition>> {
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
