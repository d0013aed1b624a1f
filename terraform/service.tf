locals {
  # The collector scrapes port 8080 unless a file of its own says otherwise; the platform
  # tells the server its port.
  port         = 8081
  metrics_port = 8080

  probes = {
    startup   = "/health/startup"
    readiness = "/health/ready"
    liveness  = "/health/live"
  }
}

# What runs already, where no image is named.
data "google_cloud_run_v2_service" "current" {
  count = var.image == null ? 1 : 0

  project  = var.project_id
  location = var.region
  name     = var.name
}

resource "google_cloud_run_v2_service" "server" {
  project             = var.project_id
  location            = var.region
  name                = var.name
  description         = "Writes Pub/Sub messages and batches of records to tables."
  labels              = var.labels
  ingress             = var.ingress
  deletion_protection = var.deletion_protection
  launch_stage        = var.readiness_probe ? "BETA" : "GA"

  custom_audiences = [local.audience]
  # Where the platform checks tokens it takes their signatures off. The server that is to
  # check them itself needs the platform not to; nobody is granted anything by that.
  invoker_iam_disabled = var.auth == "oidc"

  template {
    service_account                  = google_service_account.runtime.email
    max_instance_request_concurrency = var.concurrency
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"
    # Above every deadline of the server, which answers by itself.
    timeout = "${max(var.batch_timeout_seconds, var.request_timeout_seconds) + 10}s"
    labels  = var.labels

    scaling {
      min_instance_count = var.min_instances
      max_instance_count = var.max_instances
    }

    containers {
      name  = "server"
      image = var.image == null ? one(data.google_cloud_run_v2_service.current[*].template[0].containers[0].image) : var.image

      ports {
        name           = var.h2c ? "h2c" : "http1"
        container_port = local.port
      }

      dynamic "env" {
        for_each = local.environment
        content {
          name  = env.key
          value = env.value
        }
      }

      resources {
        limits            = { cpu = tostring(var.cpu), memory = "${var.memory_mib}Mi" }
        cpu_idle          = var.cpu_idle
        startup_cpu_boost = true
      }

      # The server's warm-up ends within 10 s, well or badly.
      startup_probe {
        period_seconds    = 1
        timeout_seconds   = 1
        failure_threshold = 30
        http_get {
          path = local.probes.startup
        }
      }

      liveness_probe {
        period_seconds    = 10
        timeout_seconds   = 2
        failure_threshold = 3
        http_get {
          path = local.probes.liveness
        }
      }

      dynamic "readiness_probe" {
        for_each = var.readiness_probe ? [local.probes.readiness] : []
        content {
          period_seconds    = 5
          timeout_seconds   = 2
          failure_threshold = 3
          success_threshold = 1
          http_get {
            path = readiness_probe.value
          }
        }
      }

      volume_mounts {
        name       = "routes"
        mount_path = local.routes_folder
      }
    }

    dynamic "containers" {
      for_each = var.collector == null ? [] : [var.collector.image]
      content {
        name       = "collector"
        image      = containers.value
        depends_on = ["server"]
        resources {
          limits   = { cpu = "1", memory = "512Mi" }
          cpu_idle = false
        }
      }
    }

    volumes {
      name = "routes"
      secret {
        secret = var.routes_secret.secret
        items {
          version = var.routes_secret.version
          path    = "routes.yaml"
        }
      }
    }
  }

  # An instance that may not read its routes, or not write, would not start, or not be ready.
  depends_on = [
    google_project_service.api,
    google_secret_manager_secret_iam_member.routes,
    google_bigtable_table_iam_member.runtime,
    google_bigtable_instance_iam_member.runtime,
    google_bigtable_gc_policy.family,
    google_spanner_database_iam_member.runtime,
    google_pubsub_topic_iam_member.rejected,
  ]
}
