resource "google_artifact_registry_repository" "images" {
  count = var.repository == null ? 0 : 1

  project       = var.project_id
  location      = var.region
  repository_id = var.repository.id
  format        = "DOCKER"
  description   = "Images of ${var.name}."
  labels        = var.labels

  # What was pushed once is what its tag names for ever.
  docker_config {
    immutable_tags = true
  }
  cleanup_policies {
    id     = "keep"
    action = "KEEP"
    most_recent_versions {
      keep_count = var.repository.keep
    }
  }
  cleanup_policies {
    id     = "old"
    action = "DELETE"
    condition {
      older_than = "2592000s"
    }
  }

  depends_on = [google_project_service.api]
}
