//! Models of POWER. KubeVirt supports no such nodes; the names are listed so that they are not
//! reported as unknown.

use super::family::Family;

const IBM: &str = "IBM";

pub(super) const FAMILIES: &[Family] = &[
    Family::new("POWER6", IBM, 2007, 10),
    Family::new("POWER7", IBM, 2010, 20),
    Family::new("POWER8", IBM, 2014, 30),
    Family::new("POWER9", IBM, 2017, 40),
    Family::new("POWER10", IBM, 2021, 50),
    Family::new("POWER11", IBM, 2025, 60),
];
