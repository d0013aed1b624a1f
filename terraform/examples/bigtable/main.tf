# A sensor's readings, from a topic to a Bigtable table: an instance, the table with its
# GC rules, and the service. See ../../README.md for what is there before.

terraform {
  required_version = ">= 1.9"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.19, < 8.0"
    }
  }
}

provider "google" {
  project = var.project_id
}

variable "project_id" {
  description = "Project of everything here."
  type        = string
}

variable "region" {
  description = "Region of the service and of the data."
  type        = string
  default     = "europe-west1"
}

variable "image" {
  description = "Image to run, REGISTRY/PATH:TAG. null = what the service runs already; the first apply has to name one."
  type        = string
  default     = null
}

variable "routes_version" {
  description = "Version of the secret pushsink-routes that holds routes.yaml."
  type        = string
  default     = "1"
}

variable "alert_email" {
  description = "Whom alerts tell; null = nobody, they are shown in the console only."
  type        = string
  default     = null
}

resource "google_bigtable_instance" "iot" {
  project = var.project_id
  name    = "iot"

  cluster {
    cluster_id   = "iot-1"
    zone         = "${var.region}-b"
    storage_type = "SSD"
    autoscaling_config {
      min_nodes  = 1
      max_nodes  = 3
      cpu_target = 60
    }
  }
}

module "pushsink" {
  source = "../.."

  project_id    = var.project_id
  region        = var.region
  image         = var.image
  routes_secret = { secret = "pushsink-routes", version = var.routes_version }

  subscriptions  = { telemetry = {} }
  rejected_topic = true

  bigtable = {
    instance = google_bigtable_instance.iot.name
    tables = {
      # As the families of routes.yaml say.
      readings = { families = { m = { max_versions = 1, max_age = "720h" } } }
    }
  }

  # The server's own metrics, and the alerts on them.
  collector = {}
  cpu_idle  = false
  alerts    = { emails = var.alert_email == null ? [] : [var.alert_email] }
}

# The one role on the project, given here and not by the module: Monitoring has nothing
# smaller for writing metrics.
resource "google_project_iam_member" "metrics" {
  project = var.project_id
  role    = "roles/monitoring.metricWriter"
  member  = "serviceAccount:${module.pushsink.runtime_service_account}"
}

output "topic" {
  description = "Where messages are published."
  value       = module.pushsink.topics["telemetry"]
}

output "rejected_topic" {
  description = "For deadLetterTopic in routes.yaml."
  value       = module.pushsink.rejected_topic
}

output "rejected_subscription" {
  description = "For server redrive -subscription."
  value       = module.pushsink.rejected_subscription
}

output "service_url" {
  description = "Where batches are posted; also the audience of their tokens."
  value       = module.pushsink.service_url
}
