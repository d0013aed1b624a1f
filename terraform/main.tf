data "google_project" "this" {
  project_id = var.project_id
}

locals {
  # Cloud Run's URL that is known before the service is: one value for the push endpoint,
  # the audience of its tokens, the audience that the platform takes, and the one that
  # the server takes with auth = oidc.
  service_url = "https://${var.name}-${data.google_project.this.number}.${var.region}.run.app"
  audience    = local.service_url

  pubsub_agent = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"

  apis = toset(concat(
    ["run.googleapis.com", "pubsub.googleapis.com", "secretmanager.googleapis.com", "iam.googleapis.com"],
    var.bigtable == null ? [] : ["bigtable.googleapis.com", "bigtableadmin.googleapis.com"],
    var.spanner == null ? [] : ["spanner.googleapis.com"],
    var.repository == null ? [] : ["artifactregistry.googleapis.com"],
    var.alerts == null && !var.dashboard && var.collector == null ? [] : ["monitoring.googleapis.com"],
  ))
}

resource "google_project_service" "api" {
  for_each = var.enable_apis ? local.apis : []

  project            = var.project_id
  service            = each.value
  disable_on_destroy = false
}
