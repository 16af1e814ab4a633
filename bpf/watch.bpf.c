/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The kernel side of `gpumap watch`. Needs Linux 5.8 (ring buffer) with BTF.
 */
#include "pair.h"
#include "process.h"
#include "driver.h"

/* Some of the helpers are for programs under a GPL-compatible licence. */
SEC("license") char LICENSE[] = "Dual MIT/GPL";
