mock_provider "google" {}

override_data {
  target = module.pushsink.data.google_project.this
  values = { number = "123456789012" }
}

override_resource {
  target = module.pushsink.google_service_account.runtime
  values = {
    email  = "pushsink-runtime@my-project.iam.gserviceaccount.com"
    member = "serviceAccount:pushsink-runtime@my-project.iam.gserviceaccount.com"
  }
}

variables {
  project_id  = "my-project"
  image       = "europe-west1-docker.pkg.dev/my-project/images/pushsink:v1.2.3"
  alert_email = "ops@example.com"
}

run "one_apply" {
  command = apply

  assert {
    condition     = output.service_url == "https://pushsink-123456789012.europe-west1.run.app"
    error_message = "Another URL: ${output.service_url}"
  }
  # What the routes file says.
  assert {
    condition     = keys(yamldecode(file("routes.yaml")).routes) == keys(module.pushsink.push_endpoints)
    error_message = "The routes are not those of the subscriptions."
  }
  assert {
    condition     = google_project_iam_member.metrics.member == "serviceAccount:pushsink-runtime@my-project.iam.gserviceaccount.com" && google_project_iam_member.metrics.role == "roles/monitoring.metricWriter"
    error_message = "The collector may not write, or the server may do more."
  }
}
