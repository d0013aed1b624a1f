# The sinks, what the server may do there, and nothing beyond.

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
}

run "bigtable_tables_and_their_rules" {
  command = apply
  variables {
    bigtable = {
      instance        = "iot"
      project         = "data-project"
      app_profile     = "writes"
      existing_tables = ["old"]
      tables = {
        readings = {
          split_keys              = ["m"]
          change_stream_retention = "48h"
          families = {
            both = { max_versions = 1, max_age = "168h", mode = "intersection" }
            one  = { max_versions = 3 }
            all  = {}
          }
        }
      }
    }
  }

  assert {
    condition     = toset(google_bigtable_table.table["readings"].column_family[*].family) == toset(["both", "one", "all"]) && google_bigtable_table.table["readings"].deletion_protection == "PROTECTED" && google_bigtable_table.table["readings"].project == "data-project"
    error_message = "Another table."
  }
  assert {
    condition     = jsondecode(google_bigtable_gc_policy.family["readings/both"].gc_rules) == { mode = "intersection", rules = [{ max_version = 1 }, { max_age = "168h" }] }
    error_message = "Another rule: ${google_bigtable_gc_policy.family["readings/both"].gc_rules}"
  }
  assert {
    condition     = jsondecode(google_bigtable_gc_policy.family["readings/one"].gc_rules) == { rules = [{ max_version = 3 }] }
    error_message = "A single rule has no mode: ${google_bigtable_gc_policy.family["readings/one"].gc_rules}"
  }
  assert {
    condition     = keys(google_bigtable_gc_policy.family) == ["readings/both", "readings/one"]
    error_message = "A family that keeps everything has a rule."
  }
  assert {
    condition     = { for table, b in google_bigtable_table_iam_member.runtime : table => "${b.role} ${b.member}" } == { for table in ["old", "readings"] : table => "roles/bigtable.user ${google_service_account.runtime.member}" }
    error_message = "The server may not write to every table."
  }
  assert {
    condition     = length(google_bigtable_instance_iam_member.runtime) == 0 && length(google_spanner_database_iam_member.runtime) == 0
    error_message = "The server may do more than write to its tables."
  }
  assert {
    condition     = local.environment["PUSHSINK_BIGTABLE_PROJECT"] == "data-project" && local.environment["PUSHSINK_BIGTABLE_APP_PROFILE"] == "writes" && !contains(keys(local.environment), "PUSHSINK_SPANNER_DATABASE")
    error_message = "The server is told something else."
  }
}

run "bigtable_tables_that_the_server_makes" {
  command = plan
  variables {
    bigtable = { instance = "iot", create_tables = { role = "projects/my-project/roles/tableCreator" } }
  }

  assert {
    condition     = keys(google_bigtable_instance_iam_member.runtime) == ["projects/my-project/roles/tableCreator", "roles/bigtable.user"] && alltrue([for b in values(google_bigtable_instance_iam_member.runtime) : b.instance == "iot"])
    error_message = "The server may not make tables, or more than in this instance."
  }
}

run "spanner_database_with_its_ddl" {
  command = apply
  variables {
    spanner = { instance = "shop-1", database = "shop", ddl = ["CREATE TABLE Orders (Id STRING(36) NOT NULL) PRIMARY KEY (Id)"], version_retention_period = "3d" }
  }

  assert {
    condition     = tolist(google_spanner_database.database[0].ddl) == tolist(["CREATE TABLE Orders (Id STRING(36) NOT NULL) PRIMARY KEY (Id)"]) && google_spanner_database.database[0].enable_drop_protection
    error_message = "Another database."
  }
  assert {
    condition     = google_spanner_database_iam_member.runtime[0].role == "roles/spanner.databaseUser" && google_spanner_database_iam_member.runtime[0].database == "shop" && google_spanner_database_iam_member.runtime[0].member == google_service_account.runtime.member
    error_message = "The server may not write to it."
  }
  assert {
    condition     = local.environment["PUSHSINK_SPANNER_DATABASE"] == "projects/my-project/instances/shop-1/databases/shop" && !contains(keys(local.environment), "PUSHSINK_BIGTABLE_INSTANCE")
    error_message = "The server is told something else."
  }
}

run "spanner_database_that_is_there" {
  command = plan
  variables {
    spanner = { instance = "shop-1", database = "shop" }
  }

  assert {
    condition     = length(google_spanner_database.database) == 0 && google_spanner_database_iam_member.runtime[0].database == "shop"
    error_message = "It is made again, or not granted."
  }
}

run "alerts_and_dashboard" {
  command = plan
  variables {
    bigtable  = { instance = "iot", existing_tables = ["readings"] }
    collector = {}
    cpu_idle  = false
    alerts    = { emails = ["ops@example.com"], channels = ["projects/my-project/notificationChannels/1"], streak = 25 }
  }

  assert {
    condition     = keys(google_monitoring_alert_policy.platform) == ["dead_letters", "latency", "oldest_unacked", "server_errors"] && keys(google_monitoring_alert_policy.server) == ["late", "rejections", "streak"]
    error_message = "An alert is missing."
  }
  assert {
    condition     = google_monitoring_alert_policy.platform["server_errors"].conditions[0].condition_threshold[0].denominator_filter != null && google_monitoring_alert_policy.platform["server_errors"].conditions[0].condition_threshold[0].threshold_value == 0.05
    error_message = "The share of errors is no share."
  }
  assert {
    condition     = strcontains(google_monitoring_alert_policy.server["streak"].conditions[0].condition_prometheus_query_language[0].query, "namespace=\"pushsink\"}) >= 25 ")
    error_message = "Another streak: ${google_monitoring_alert_policy.server["streak"].conditions[0].condition_prometheus_query_language[0].query}"
  }
  assert {
    condition     = strcontains(google_monitoring_alert_policy.platform["oldest_unacked"].conditions[0].condition_threshold[0].filter, "one_of(\"pushsink-telemetry-push\", \"pushsink-dead-letter\")")
    error_message = "Subscriptions of others, or not all of these: ${google_monitoring_alert_policy.platform["oldest_unacked"].conditions[0].condition_threshold[0].filter}"
  }
  assert {
    condition     = keys(google_monitoring_notification_channel.email) == ["ops@example.com"]
    error_message = "Nobody is told."
  }
  assert {
    condition     = length(jsondecode(google_monitoring_dashboard.this[0].dashboard_json).mosaicLayout.tiles) == 16
    error_message = "Tiles are missing."
  }
  assert {
    condition     = alltrue([for t in jsondecode(google_monitoring_dashboard.this[0].dashboard_json).mosaicLayout.tiles : t.xPos + t.width <= 48 && length(t.widget.xyChart.dataSets[0].timeSeriesQuery) == 1])
    error_message = "A tile is outside, or has no query, or two."
  }
}

run "nothing_to_look_at" {
  command = plan
  variables {
    alerts    = null
    dashboard = false
  }

  assert {
    condition     = length(google_monitoring_alert_policy.platform) + length(google_monitoring_alert_policy.server) + length(google_monitoring_dashboard.this) + length(google_monitoring_notification_channel.email) == 0 && !contains(keys(google_project_service.api), "monitoring.googleapis.com")
    error_message = "There is something."
  }
}

run "platform_alerts_without_the_collector" {
  command = plan

  assert {
    condition     = length(google_monitoring_alert_policy.platform) == 4 && length(google_monitoring_alert_policy.server) == 0 && length(jsondecode(google_monitoring_dashboard.this[0].dashboard_json).mosaicLayout.tiles) == 8
    error_message = "An alert or a tile on metrics that nobody scrapes."
  }
}

run "batches_alone_have_nothing_of_pubsub" {
  command = plan
  variables {
    subscriptions = {}
  }

  assert {
    condition     = keys(google_monitoring_alert_policy.platform) == ["latency", "server_errors"] && length(jsondecode(google_monitoring_dashboard.this[0].dashboard_json).mosaicLayout.tiles) == 5
    error_message = "An alert or a tile on subscriptions that are not there."
  }
  assert {
    condition     = length(google_pubsub_topic.dead_letter) + length(google_pubsub_subscription.dead_letter) == 0
    error_message = "Dead letters of no subscription."
  }
}

run "repository_of_images" {
  command = plan
  variables {
    repository = { id = "images", keep = 5 }
  }

  assert {
    condition     = google_artifact_registry_repository.images[0].format == "DOCKER" && google_artifact_registry_repository.images[0].docker_config[0].immutable_tags && contains(keys(google_project_service.api), "artifactregistry.googleapis.com")
    error_message = "Another repository."
  }
}
