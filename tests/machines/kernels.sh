#!/bin/bash
# kernels.sh DIR: unpacks the kernels that a distribution has for virtual machines into
# DIR/RELEASE, one for each of its releases, and prints "RELEASE DIRECTORY" lines. What is
# there already is kept. Takes Debian's from the mirror that this machine's apt uses,
# without touching apt's own state; apt checks the distribution's signature. Needs the
# package debian-archive-keyring, or curl.
#
#   DISTRIBUTION=ubuntu  its kernels, from archive.ubuntu.com (debian)
#   ARCHITECTURE=…       as Debian names it (that of this machine)
#   RELEASES="…"         RELEASE or RELEASE/FLAVOUR (all that the matrix has)
#   FLAVOUR=…            another kernel than that for virtual machines
set -euo pipefail
mkdir -p "$1"/apt/archives/partial "$1/packages"
dir=$(realpath "$1")

# Ubuntu's package of keys, known by its hash: Debian has none of it. Archives of 2018 and
# later are signed by F6EC B376 2474 EDA9 D21B 7022 8719 20D1 991B C93C.
ubuntu_keyring() {
    local package=$dir/packages/ubuntu-keyring.deb
    curl --silent --show-error --fail --output "$package" "$mirror/pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb"
    echo "0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f  $package" | sha256sum --check --quiet
    dpkg -x "$package" "$dir/ubuntu-keyring"
}

architecture=${ARCHITECTURE:-$(dpkg --print-architecture)}
case ${DISTRIBUTION:=debian} in
debian)
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -1)
    [ -n "$mirror" ] || { echo "kernels.sh: apt names no mirror of Debian" >&2; exit 1; }
    all="bullseye bookworm trixie sid" usual=cloud-$architecture
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e "$keys" ] || { echo "kernels.sh: there is no $keys (package debian-archive-keyring)" >&2; exit 1; } ;;
ubuntu)
    mirror=http://archive.ubuntu.com/ubuntu
    all="jammy-updates noble-updates noble-updates/virtual-hwe-24.04" usual=virtual
    keys=$dir/ubuntu-keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg
    [ -e "$keys" ] || ubuntu_keyring ;;
*) echo "kernels.sh: no such distribution: $DISTRIBUTION" >&2; exit 1 ;;
esac
read -ra wanted <<<"${RELEASES:-$all}"
mapfile -t releases < <(printf '%s\n' "${wanted[@]%%/*}" | sort -u)
printf "deb [signed-by=$keys] $mirror %s main\n" "${releases[@]}" > "$dir/apt/sources.list"
cat > "$dir/apt/apt.conf" <<C
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
Dir::State::Lists "$dir/apt/lists-$DISTRIBUTION";
Dir::State::Status "/dev/null";
Dir::Cache "$dir/apt";
Dir::Etc::SourceList "$dir/apt/sources.list";
Dir::Etc::SourceParts "/none";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Sandbox::User "root";
C
export APT_CONFIG=$dir/apt/apt.conf
mkdir -p "$dir/apt/lists-$DISTRIBUTION/partial"
fresh=$dir/apt/fresh-$DISTRIBUTION-$(IFS=- && echo "${releases[*]}")
[ -e "$fresh" ] || { apt-get update -qq && touch "$fresh"; }

cd "$dir/packages"
for each in "${wanted[@]}"; do
    release=${each%%/*} flavour=${FLAVOUR:-$usual}
    [ "$each" = "$release" ] || flavour=${each#*/}
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
