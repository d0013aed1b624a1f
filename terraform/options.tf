locals {
  # Every option of the server with its bounds; `go test ./cmd/server -run Terraform -update`
  # writes the file from the declarations.
  server_options = jsondecode(file("${path.module}/options.json"))

  # Options that follow from variables. SHUTDOWN_TIMEOUT stays below the 10 s that the
  # platform leaves between SIGTERM and SIGKILL.
  owned_options = [
    "ROUTES_FILE", "AUTH", "AUTH_AUDIENCES", "AUTH_EMAILS", "METRICS_PORT",
    "ACK_DEADLINE", "REQUEST_TIMEOUT", "BATCH_TIMEOUT", "SHUTDOWN_TIMEOUT",
    "BIGTABLE_PROJECT", "BIGTABLE_INSTANCE", "BIGTABLE_APP_PROFILE", "SPANNER_DATABASE",
  ]

  # What the byte bounds admit, twice (a body is decoded before it is let go, an entry is
  # serialized once more to be sent), and 64 MiB for the rest: the limit that the server
  # gives its own collector. A tenth of the container's memory stays above it.
  option_bytes = { for name in ["BODY_BYTES_IN_FLIGHT", "BIGTABLE_MAX_IN_FLIGHT_BYTES", "SPANNER_MAX_IN_FLIGHT_BYTES"] :
    name => try(tonumber(var.options[name]), tonumber(local.server_options[name].default))
  }
  bytes_in_flight = (local.option_bytes["BODY_BYTES_IN_FLIGHT"] +
    (var.bigtable == null ? 0 : local.option_bytes["BIGTABLE_MAX_IN_FLIGHT_BYTES"]) +
  (var.spanner == null ? 0 : local.option_bytes["SPANNER_MAX_IN_FLIGHT_BYTES"]))
  memory_needed_mib = ceil((2 * local.bytes_in_flight / 1048576 + 64) / 0.9)

  routes_folder = "/etc/pushsink"

  # The environment of the server. null = not set.
  environment = { for name, value in merge(var.options, {
    ROUTES_FILE     = "${local.routes_folder}/routes.yaml"
    AUTH            = var.auth
    AUTH_AUDIENCES  = var.auth == "oidc" ? local.audience : null
    AUTH_EMAILS     = var.auth == "oidc" ? join(",", concat([google_service_account.push.email], [for m in var.callers : trimprefix(m, "serviceAccount:")])) : null
    ACK_DEADLINE    = "${var.ack_deadline_seconds}s"
    REQUEST_TIMEOUT = "${var.request_timeout_seconds}s"
    BATCH_TIMEOUT   = "${var.batch_timeout_seconds}s"
    METRICS_PORT    = var.collector == null ? null : tostring(local.metrics_port)

    BIGTABLE_PROJECT     = var.bigtable == null ? null : local.bigtable_project
    BIGTABLE_INSTANCE    = try(var.bigtable.instance, null)
    BIGTABLE_APP_PROFILE = try(var.bigtable.app_profile, null)
    SPANNER_DATABASE     = var.spanner == null ? null : "projects/${local.spanner_project}/instances/${var.spanner.instance}/databases/${var.spanner.database}"
  }) : "PUSHSINK_${name}" => value if value != null }
}
