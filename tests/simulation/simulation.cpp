// Runs the hub in a model of the world, one run per seed. A failing seed prints itself, a small trace and how
// to replay it; exit code 1. See docs/testing.md.

#include "simulation/campaign.hpp"
#include "simulation/world.hpp"

int main(int argc, char** argv) {
  return pgwake::simulation::campaign_main<pgwake::simulation::world>(argc, argv);
}
