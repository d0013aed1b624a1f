locals {
  spanner_project = try(coalesce(var.spanner.project, var.project_id), var.project_id)
}

resource "google_spanner_database" "database" {
  count = try(var.spanner.ddl, null) == null ? 0 : 1

  project                  = local.spanner_project
  instance                 = var.spanner.instance
  name                     = var.spanner.database
  database_dialect         = var.spanner.dialect
  ddl                      = var.spanner.ddl
  version_retention_period = var.spanner.version_retention_period
  deletion_protection      = var.deletion_protection
  enable_drop_protection   = var.deletion_protection

  depends_on = [google_project_service.api]
}

resource "google_spanner_database_iam_member" "runtime" {
  count = var.spanner == null ? 0 : 1

  project  = local.spanner_project
  instance = var.spanner.instance
  database = try(google_spanner_database.database[0].name, var.spanner.database)
  role     = "roles/spanner.databaseUser"
  member   = google_service_account.runtime.member
}
