#pragma once

#include "attack/attack.hpp"
#include "attack/verdict.hpp"

namespace pgwake::attack {

/// Starts a hub with default settings, lets innocent workers measure before and during the attack, and
/// judges.
outcome judge(const attack& a, milliseconds before, milliseconds during);

}  // namespace pgwake::attack
