// SPDX-License-Identifier: Apache-2.0
// The MPI session, and the only catch. What is wrong with the configuration was agreed on by all ranks and ends them
// together (exit 2); anything later takes the others down at once, for they may sit in a collective.
#include <exception>
#include <string_view>

#include "actions/run.h"
#include "base/activity.h"
#include "base/exit_codes.h"
#include "comm/session.h"
#include "launch/supervisor.h"
#include "report/report.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "launch") return tutti::launch::run(argc - 2, argv + 2);
  if (argc > 1 && std::string_view(argv[1]) == "report") return tutti::report::run(argc - 2, argv + 2);
  tutti::watch_this_thread();
  tutti::MpiSession mpi(&argc, &argv);
  try {
    int code = 0;
    if (const auto run = tutti::actions::prepare_run(argc, argv, mpi.world(), code))
      tutti::actions::run_actions(*run, mpi.world());
    mpi.end(code);
    return code;
  } catch (const tutti::StopRun& stop) {
    mpi.end(stop.code);
    return stop.code;
  } catch (const tutti::CodedError& error) {
    mpi.fail(error.what(), error.code());
  } catch (const std::exception& error) {
    mpi.fail(error.what());
  }
}
