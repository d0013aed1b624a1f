# Orders, from a topic to a Spanner database: an instance, the database with its tables,
# and the service. See ../../README.md for what is there before.

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

resource "google_spanner_instance" "shop" {
  project          = var.project_id
  name             = "shop-1"
  display_name     = "shop"
  config           = "regional-${var.region}"
  processing_units = 100
}

module "pushsink" {
  source = "../.."

  project_id    = var.project_id
  region        = var.region
  image         = var.image
  routes_secret = { secret = "pushsink-routes", version = var.routes_version }

  subscriptions = { orders = {} }

  spanner = {
    instance = google_spanner_instance.shop.name
    database = "shop"
    ddl = [
      <<-SQL
        CREATE TABLE Orders (
          OrderId STRING(36) DEFAULT (GENERATE_UUID()),
          Sku STRING(20) NOT NULL,
          Total NUMERIC,
          SeenAt TIMESTAMP
        ) PRIMARY KEY (OrderId)
      SQL
      ,
      # What server ddl -routes routes.yaml prints.
      <<-SQL
        CREATE TABLE `Seen` (
          Id BYTES(16) NOT NULL,
          WrittenAt TIMESTAMP NOT NULL OPTIONS (allow_commit_timestamp = true)
        ) PRIMARY KEY (Id), ROW DELETION POLICY (OLDER_THAN(WrittenAt, INTERVAL 14 DAY))
      SQL
      ,
    ]
  }

  # Without the collector the platform's metrics are all there is.
  options = { SPANNER_RPC_PRIORITY = "MEDIUM" }
}

output "topic" {
  description = "Where messages are published."
  value       = module.pushsink.topics["orders"]
}

output "service_url" {
  description = "Where batches are posted; also the audience of their tokens."
  value       = module.pushsink.service_url
}
