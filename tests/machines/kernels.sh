#!/bin/bash
# kernels.sh DIR: unpacks the kernels that Debian has for virtual machines into
# DIR/RELEASE, one for each of its releases, and prints "RELEASE DIRECTORY" lines. What is
# there already is kept. Takes them from the mirror that this machine's apt uses, without
# touching apt's own state.
#
#   ARCHITECTURE=…  as Debian names it (that of this machine)
#   RELEASES="…"    of Debian (bullseye bookworm trixie sid)
#   FLAVOUR=…       another kernel than that for virtual machines (cloud-ARCHITECTURE)
set -euo pipefail
mkdir -p "$1"/apt/{lists/partial,archives/partial} "$1/packages"
dir=$(realpath "$1")

mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -1)
[ -n "$mirror" ] || { echo "kernels.sh: apt names no mirror of Debian" >&2; exit 1; }
read -ra releases <<<"${RELEASES:-bullseye bookworm trixie sid}"
architecture=${ARCHITECTURE:-$(dpkg --print-architecture)}
flavour=${FLAVOUR:-cloud-$architecture}
printf "deb [trusted=yes] $mirror %s main\n" "${releases[@]}" > "$dir/apt/sources.list"
cat > "$dir/apt/apt.conf" <<C
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
Dir::State::Lists "$dir/apt/lists";
Dir::State::Status "/dev/null";
Dir::Cache "$dir/apt";
Dir::Etc::SourceList "$dir/apt/sources.list";
Dir::Etc::SourceParts "/none";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Sandbox::User "root";
C
export APT_CONFIG=$dir/apt/apt.conf
fresh=$dir/apt/fresh-$(IFS=- && echo "${releases[*]}")
[ -e "$fresh" ] || { apt-get update -qq && touch "$fresh"; }

cd "$dir/packages"
for release in "${releases[@]}"; do
    # The metapackage names the kernel; since 6.19 what is in its modules and its image are
    # packages of their own.
    image=$(apt-cache show "linux-image-$flavour/$release" |
        sed -n 's/^Depends:.*\(linux-image-[0-9][^ ,]*\).*/\1/p' | head -1)
    [ -n "$image" ] || { echo "kernels.sh: $release has no kernel for virtual machines" >&2; exit 1; }
    version=${image#linux-image-}
    into=$dir/${version%%[-+]*}
    if [ ! -d "$into" ]; then
        for package in "$image" "linux-binary-$version" "linux-modules-$version"; do
            apt-cache show "$package/$release" >/dev/null 2>&1 || continue
            apt-get download -qq "$package/$release"
            dpkg -x "${package}"_*.deb "$into.new"
        done
        mv "$into.new" "$into"
    fi
    echo "${version%%[-+]*} $into"
done
