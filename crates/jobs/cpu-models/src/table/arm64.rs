//! Models of Arm. The node labeller sets no model labels on arm64; these serve clusters that label
//! nodes by other means.

use super::family::Family;

const ARM: &str = "ARM";

pub(super) const FAMILIES: &[Family] = &[
    Family::new("cortex-a53", ARM, 2014, 10),
    Family::new("cortex-a57", ARM, 2015, 20),
    Family::new("cortex-a72", ARM, 2016, 30),
    Family::new("Neoverse-N1", ARM, 2019, 40),
    Family::new("Neoverse-N2", ARM, 2021, 50),
    Family::new("Neoverse-V1", ARM, 2021, 51),
    Family::new("Neoverse-V2", ARM, 2022, 60),
    Family::new("Falkor", "Qualcomm", 2017, 10),
    Family::new("ThunderX2 99xx", "Cavium", 2018, 10),
    Family::new("a64fx", "Fujitsu", 2019, 10),
    Family::new("Kunpeng-920", "HiSilicon", 2019, 10),
    Family::new("FT-2000+", "Phytium", 2017, 10),
    Family::new("Tengyun-S2500", "Phytium", 2020, 20),
    Family::new("Ampere-1", "Ampere", 2023, 10),
    Family::new("Ampere-1a", "Ampere", 2024, 20),
];
