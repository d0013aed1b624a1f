# The Cloud Run service: who may call it, what it is told, how it is probed.

mock_provider "google" {}

override_data {
  target = data.google_project.this
  values = { number = "123456789012" }
}

override_resource {
  target = google_service_account.push
  values = {
    email  = "pushsink-push@my-project.iam.gserviceaccount.com"
    member = "serviceAccount:pushsink-push@my-project.iam.gserviceaccount.com"
  }
}

override_resource {
  target = google_service_account.runtime
  values = {
    email  = "pushsink-runtime@my-project.iam.gserviceaccount.com"
    member = "serviceAccount:pushsink-runtime@my-project.iam.gserviceaccount.com"
  }
}

variables {
  project_id    = "my-project"
  region        = "europe-west1"
  image         = "europe-west1-docker.pkg.dev/my-project/images/pushsink:v1.2.3"
  routes_secret = { secret = "pushsink-routes", version = "3" }
  subscriptions = { telemetry = {} }
  bigtable      = { instance = "iot", existing_tables = ["readings"] }
}

# Applied against the mock, so that what is known after an apply only is known here.
run "CFG_07_one_value_is_url_and_audience" {
  command = apply

  assert {
    condition     = local.service_url == "https://pushsink-123456789012.europe-west1.run.app"
    error_message = "The URL is not the one that Cloud Run gives: ${local.service_url}"
  }
  assert {
    condition     = google_pubsub_subscription.push["telemetry"].push_config[0].oidc_token[0].audience == local.service_url
    error_message = "The tokens' audience is not the service's URL."
  }
  assert {
    condition     = tolist(google_cloud_run_v2_service.server.custom_audiences) == tolist([google_pubsub_subscription.push["telemetry"].push_config[0].oidc_token[0].audience])
    error_message = "The service takes another audience than the tokens have."
  }
  assert {
    condition     = google_pubsub_subscription.push["telemetry"].push_config[0].push_endpoint == "${local.service_url}/v1/routes/telemetry/push"
    error_message = "Pushes go elsewhere."
  }
  assert {
    condition     = google_pubsub_subscription.push["telemetry"].push_config[0].oidc_token[0].service_account_email == google_service_account.push.email
    error_message = "Pushes are another account's."
  }
  assert {
    condition = (google_cloud_run_v2_service_iam_member.push[0].role == "roles/run.invoker" &&
      google_cloud_run_v2_service_iam_member.push[0].member == google_service_account.push.member &&
    google_cloud_run_v2_service_iam_member.push[0].name == google_cloud_run_v2_service.server.name)
    error_message = "The account of the pushes may not call the service."
  }
  assert {
    condition     = google_service_account_iam_member.push_tokens.member == "serviceAccount:service-123456789012@gcp-sa-pubsub.iam.gserviceaccount.com"
    error_message = "Pub/Sub may not sign as the account of the pushes."
  }
  assert {
    condition     = output.service_url == local.service_url && output.push_endpoints == { telemetry = "${local.service_url}/v1/routes/telemetry/push" }
    error_message = "The outputs say something else."
  }
}

run "private_by_default" {
  command = plan

  assert {
    condition     = google_cloud_run_v2_service.server.invoker_iam_disabled == false
    error_message = "The platform checks nobody."
  }
  assert {
    condition     = local.environment["PUSHSINK_AUTH"] == "cloudrun" && !contains(keys(local.environment), "PUSHSINK_AUTH_AUDIENCES")
    error_message = "The server does not rely on the platform's check."
  }
  assert {
    condition     = length(google_cloud_run_v2_service_iam_member.push) == 1 && length(google_cloud_run_v2_service_iam_member.caller) == 0
    error_message = "Somebody else may call."
  }
  assert {
    condition     = google_cloud_run_v2_service.server.deletion_protection
    error_message = "A destroy takes it."
  }
}

run "CFG_07_oidc_is_checked_by_the_server" {
  command = apply
  variables {
    auth    = "oidc"
    callers = ["serviceAccount:batch@my-project.iam.gserviceaccount.com"]
  }

  assert {
    condition     = one([for e in google_cloud_run_v2_service.server.template[0].containers[0].env : e.value if e.name == "PUSHSINK_AUTH_AUDIENCES"]) == google_pubsub_subscription.push["telemetry"].push_config[0].oidc_token[0].audience
    error_message = "The server wants another audience than the tokens have."
  }
  assert {
    condition     = one([for e in google_cloud_run_v2_service.server.template[0].containers[0].env : e.value if e.name == "PUSHSINK_AUTH_EMAILS"]) == "pushsink-push@my-project.iam.gserviceaccount.com,batch@my-project.iam.gserviceaccount.com"
    error_message = "The server knows other callers."
  }
  assert {
    condition     = google_cloud_run_v2_service.server.invoker_iam_disabled && length(google_cloud_run_v2_service_iam_member.push) == 0 && length(google_cloud_run_v2_service_iam_member.caller) == 0
    error_message = "The platform takes the signatures off that the server is to check."
  }
}

run "RUN_01_probes_are_paths_of_the_contract" {
  command = plan

  assert {
    condition     = alltrue([for path in values(local.probes) : contains(keys(yamldecode(file("../openapi.yaml")).paths), path)])
    error_message = "openapi.yaml has no such path: ${join(", ", values(local.probes))}"
  }
  assert {
    condition     = alltrue([for path in values(local.probes) : !endswith(path, "z")])
    error_message = "The front end answers paths that end in z itself."
  }
  assert {
    condition = (google_cloud_run_v2_service.server.template[0].containers[0].startup_probe[0].http_get[0].path == "/health/startup" &&
      google_cloud_run_v2_service.server.template[0].containers[0].readiness_probe[0].http_get[0].path == "/health/ready" &&
    google_cloud_run_v2_service.server.template[0].containers[0].liveness_probe[0].http_get[0].path == "/health/live")
    error_message = "A probe asks another path than its own."
  }
  # A preview of the platform.
  assert {
    condition     = google_cloud_run_v2_service.server.launch_stage == "BETA"
    error_message = "A readiness probe needs the launch stage BETA."
  }
}

run "CONN_03_CONN_04_started_when_the_warm_up_has_ended" {
  command = plan

  # /health/startup passes within 10 s, whatever the sink does; the probe waits longer.
  assert {
    condition     = google_cloud_run_v2_service.server.template[0].containers[0].startup_probe[0].period_seconds * google_cloud_run_v2_service.server.template[0].containers[0].startup_probe[0].failure_threshold > 10
    error_message = "An instance is killed before its warm-up has ended."
  }
  # A sink that is down is no reason to start anew.
  assert {
    condition     = google_cloud_run_v2_service.server.template[0].containers[0].liveness_probe[0].http_get[0].path != local.probes.readiness
    error_message = "A sink that does not answer ends the instances."
  }
}

run "no_readiness_probe" {
  command = plan
  variables {
    readiness_probe = false
  }
  assert {
    condition     = length(google_cloud_run_v2_service.server.template[0].containers[0].readiness_probe) == 0 && google_cloud_run_v2_service.server.launch_stage == "GA"
    error_message = "There is one."
  }
}

run "ACK_03_one_ack_deadline" {
  command = plan
  variables {
    ack_deadline_seconds    = 45
    request_timeout_seconds = 40
    batch_timeout_seconds   = 300
  }

  assert {
    condition     = local.environment["PUSHSINK_ACK_DEADLINE"] == "${google_pubsub_subscription.push["telemetry"].ack_deadline_seconds}s" && google_pubsub_subscription.push["telemetry"].ack_deadline_seconds == 45
    error_message = "The server is told another ack deadline than the subscription has."
  }
  assert {
    condition     = local.environment["PUSHSINK_REQUEST_TIMEOUT"] == "40s" && local.environment["PUSHSINK_BATCH_TIMEOUT"] == "300s"
    error_message = "The timeouts are not passed on."
  }
  # The platform does not end what the server still answers.
  assert {
    condition     = tonumber(trimsuffix(google_cloud_run_v2_service.server.template[0].timeout, "s")) > 300
    error_message = "The platform ends a request before the server answers it."
  }
}

run "environment_is_the_options" {
  command = apply
  variables {
    options = { LOG_LEVEL = "warn", EXPOSE = "rows,dryrun", WRITER_MAX_CONSECUTIVE_REJECTIONS = "-1", WRITER_MAX_TIME_IN_BUFFER = "1m30s", BIGTABLE_POOL_SIZE = "200", BIGTABLE_PER_DESTINATION_METRICS = "true" }
  }

  assert {
    condition     = { for e in google_cloud_run_v2_service.server.template[0].containers[0].env : e.name => e.value } == local.environment
    error_message = "The environment is not the one that was reckoned."
  }
  assert {
    condition = local.environment == {
      PUSHSINK_ACK_DEADLINE                      = "10s"
      PUSHSINK_AUTH                              = "cloudrun"
      PUSHSINK_BATCH_TIMEOUT                     = "60s"
      PUSHSINK_BIGTABLE_INSTANCE                 = "iot"
      PUSHSINK_BIGTABLE_PER_DESTINATION_METRICS  = "true"
      PUSHSINK_BIGTABLE_POOL_SIZE                = "200"
      PUSHSINK_BIGTABLE_PROJECT                  = "my-project"
      PUSHSINK_EXPOSE                            = "rows,dryrun"
      PUSHSINK_LOG_LEVEL                         = "warn"
      PUSHSINK_REQUEST_TIMEOUT                   = "8s"
      PUSHSINK_ROUTES_FILE                       = "/etc/pushsink/routes.yaml"
      PUSHSINK_WRITER_MAX_CONSECUTIVE_REJECTIONS = "-1"
      PUSHSINK_WRITER_MAX_TIME_IN_BUFFER         = "1m30s"
    }
    error_message = "Something is missing, or there is more."
  }
}

run "routes_come_from_the_secret" {
  command = apply

  assert {
    condition = (google_cloud_run_v2_service.server.template[0].volumes[0].secret[0].secret == "pushsink-routes" &&
      google_cloud_run_v2_service.server.template[0].volumes[0].secret[0].items[0].version == "3" &&
    "${google_cloud_run_v2_service.server.template[0].containers[0].volume_mounts[0].mount_path}/${google_cloud_run_v2_service.server.template[0].volumes[0].secret[0].items[0].path}" == local.environment["PUSHSINK_ROUTES_FILE"])
    error_message = "The server looks for its routes elsewhere than they are mounted."
  }
  assert {
    condition     = google_secret_manager_secret_iam_member.routes.role == "roles/secretmanager.secretAccessor" && google_secret_manager_secret_iam_member.routes.secret_id == "pushsink-routes" && google_secret_manager_secret_iam_member.routes.member == google_service_account.runtime.member
    error_message = "The server may not read its routes."
  }
}

run "what_the_container_is" {
  command = plan
  variables {
    cpu           = 4
    memory_mib    = 2048
    concurrency   = 1000
    min_instances = 2
    max_instances = 2
    cpu_idle      = false
    h2c           = true
  }

  assert {
    condition     = google_cloud_run_v2_service.server.template[0].containers[0].resources[0].limits == tomap({ cpu = "4", memory = "2048Mi" }) && !google_cloud_run_v2_service.server.template[0].containers[0].resources[0].cpu_idle
    error_message = "CPU or memory are others."
  }
  assert {
    condition     = google_cloud_run_v2_service.server.template[0].max_instance_request_concurrency == 1000 && google_cloud_run_v2_service.server.template[0].scaling[0].min_instance_count == 2 && google_cloud_run_v2_service.server.template[0].scaling[0].max_instance_count == 2
    error_message = "Concurrency or instances are others."
  }
  assert {
    condition     = google_cloud_run_v2_service.server.template[0].containers[0].ports[0].name == "h2c"
    error_message = "RUN-03: the container is not spoken HTTP/2 to."
  }
  assert {
    condition     = length(google_cloud_run_v2_service.server.template[0].containers) == 1
    error_message = "There is a collector."
  }
}

run "http1_by_default" {
  command = plan
  assert {
    condition     = google_cloud_run_v2_service.server.template[0].containers[0].ports[0].name == "http1"
    error_message = "Not HTTP/1."
  }
}

run "the_collector_finds_the_metrics" {
  command = plan
  variables {
    collector = {}
    cpu_idle  = false
  }

  assert {
    condition     = google_cloud_run_v2_service.server.template[0].containers[1].depends_on[0] == google_cloud_run_v2_service.server.template[0].containers[0].name && !google_cloud_run_v2_service.server.template[0].containers[1].resources[0].cpu_idle
    error_message = "The collector starts before the server, or sleeps."
  }
  # Its default is port 8080, which must not be the port of the requests.
  assert {
    condition     = local.environment["PUSHSINK_METRICS_PORT"] == "8080" && google_cloud_run_v2_service.server.template[0].containers[0].ports[0].container_port != 8080
    error_message = "The metrics are not where the collector looks."
  }
  assert {
    condition     = length(google_monitoring_alert_policy.server) == 3
    error_message = "No alerts of the server's metrics."
  }
}

run "image_that_runs_already" {
  command = plan
  variables {
    image = null
  }
  override_data {
    target = data.google_cloud_run_v2_service.current[0]
    values = { template = [{ containers = [{ image = "europe-west1-docker.pkg.dev/my-project/images/pushsink@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" }] }] }
  }
  assert {
    condition     = endswith(google_cloud_run_v2_service.server.template[0].containers[0].image, "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef")
    error_message = "An apply undoes what was deployed."
  }
}
