# The server runs as runtime; Pub/Sub calls it as push. Neither has a role on the project:
# what they may do is bound at the secret, table, instance, database, topic or service.

resource "google_service_account" "runtime" {
  project      = var.project_id
  account_id   = "${var.name}-runtime"
  display_name = "${var.name}: the server"
  depends_on   = [google_project_service.api]
}

resource "google_service_account" "push" {
  project      = var.project_id
  account_id   = "${var.name}-push"
  display_name = "${var.name}: Pub/Sub's push subscriptions"
  depends_on   = [google_project_service.api]
}

# Pub/Sub signs the tokens of its pushes as that account. Its agent may do so in projects
# since April 2021 anyhow; in older ones, and where that was taken away, it is this.
resource "google_service_account_iam_member" "push_tokens" {
  service_account_id = google_service_account.push.name
  role               = "roles/iam.serviceAccountOpenIdTokenCreator"
  member             = local.pubsub_agent
  depends_on         = [google_project_service.api]
}

resource "google_secret_manager_secret_iam_member" "routes" {
  project   = var.project_id
  secret_id = var.routes_secret.secret
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.runtime.member
}

# With auth = oidc the platform asks for no role, and these would say nothing.
resource "google_cloud_run_v2_service_iam_member" "push" {
  count = var.auth == "cloudrun" ? 1 : 0

  project  = var.project_id
  location = var.region
  name     = google_cloud_run_v2_service.server.name
  role     = "roles/run.invoker"
  member   = google_service_account.push.member
}

resource "google_cloud_run_v2_service_iam_member" "caller" {
  for_each = var.auth == "cloudrun" ? toset(var.callers) : []

  project  = var.project_id
  location = var.region
  name     = google_cloud_run_v2_service.server.name
  role     = "roles/run.invoker"
  member   = each.value
}
