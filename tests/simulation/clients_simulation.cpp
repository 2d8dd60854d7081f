// Runs hub, clients and their hand-overs in a model of the world, one run per seed. See docs/testing.md.

#include "simulation/campaign.hpp"
#include "simulation/clients_world.hpp"

int main(int argc, char** argv) {
  return pgwake::simulation::campaign_main<pgwake::simulation::clients_world>(argc, argv);
}
