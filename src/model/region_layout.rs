//! Layouts of the shared region of HAMi-core's libvgpu.so and of SoftMig.

words! {
    /// Which build's layout a shared region has.
    pub enum RegionLayout {
        /// HAMi-core, January to April 2024.
        #[serde(rename = "v0a")]
        #[strum(serialize = "v0a")]
        V0a,
        /// HAMi-core, April to August 2024 (HAMi 2.4.0).
        #[serde(rename = "v0b")]
        #[strum(serialize = "v0b")]
        V0b,
        /// HAMi-core, August 2024 to March 2026 (HAMi 2.4.1 to 2.8.0).
        #[serde(rename = "1.1")]
        #[strum(serialize = "1.1")]
        V1_1,
        /// HAMi-core, March and April 2026 (HAMi 2.8.1); the file says 1.1.
        #[serde(rename = "1.1-post")]
        #[strum(serialize = "1.1-post")]
        V1_1Post,
        /// HAMi-core since 27 April 2026 (HAMi 2.8.2 to 2.9.0).
        #[serde(rename = "1.2")]
        #[strum(serialize = "1.2")]
        V1_2,
        /// SoftMig's main branch.
        #[serde(rename = "softmig-1.1")]
        #[strum(serialize = "softmig-1.1")]
        Softmig1_1,
        /// SoftMig's branch 2.06. It was not tested with a file that this branch
        /// wrote.
        #[serde(rename = "softmig-2.0")]
        #[strum(serialize = "softmig-2.0")]
        Softmig2_0,
        /// Builds of different layouts have written to the file.
        Mixed,
        /// None of these, or the bytes contradict what size and version say.
        #[default]
        Unknown,
    }
}

impl RegionLayout {
    /// Whether it is one of 2024, before files had a version.
    #[must_use]
    pub fn has_no_version(self) -> bool {
        matches!(self, Self::V0a | Self::V0b)
    }
}
