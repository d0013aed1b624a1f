terraform {
  # 1.9: a validation may refer to other variables.
  required_version = ">= 1.9"

  required_providers {
    google = {
      source = "hashicorp/google"
      # 7.19: readiness_probe of a Cloud Run service.
      version = ">= 7.19, < 8.0"
    }
  }
}
